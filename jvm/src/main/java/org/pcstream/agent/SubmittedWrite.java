// SPDX-License-Identifier: MIT OR Apache-2.0
package org.pcstream.agent;

/**
 * A task of an asynchronous channel, with the path of the thread that submitted it.
 *
 * <p>The path is that of the task's write alone: the task also calls the program's completion
 * handler, whose own writes have their own paths.
 */
final class SubmittedWrite implements Runnable {
    final long signature;
    private final Runnable task;

    SubmittedWrite(Runnable task, long signature) {
        this.task = task;
        this.signature = signature;
    }

    @Override
    public void run() {
        // A handler may submit to an executor that runs tasks at once: tasks nest.
        SubmittedWrite outer = PcStreamHook.SUBMITTED.get();
        PcStreamHook.SUBMITTED.set(this);
        try {
            task.run();
        } finally {
            if (outer == null) {
                PcStreamHook.SUBMITTED.remove();
            } else {
                PcStreamHook.SUBMITTED.set(outer);
            }
        }
    }
}
