// SPDX-License-Identifier: MIT OR Apache-2.0
package org.pcstream.agent;

import java.nio.channels.FileChannel;

/**
 * What the instrumented classes of the JDK call.
 *
 * <p>Invariants: enter and leave come in pairs around one call into the kernel, in one thread;
 * leave may come more often. Nothing here throws, but for a stack overflow that the program was
 * about to meet. Nothing here is instrumented, so there is no recursion.
 *
 * <p>The signatures themselves are made in agent.c.
 */
public final class PcStreamHook {
    /** Set before anything is instrumented. */
    static boolean memo;

    /** The write that this thread does for another. Follows virtual threads, unlike memory in C. */
    static final ThreadLocal<SubmittedWrite> SUBMITTED = new ThreadLocal<>();

    private PcStreamHook() {}

    /**
     * Before a write to the stream; the caller is the last of so many frames of the JDK, which are
     * not looked at.
     */
    public static void enter(Object stream, int frames) {
        enter0(memo ? System.identityHashCode(stream) : 0, frames);
    }

    /** After it, in whatever way it ended. */
    public static void leave() {
        leave0();
    }

    /** In place of a task that will write in another thread. */
    public static Runnable submitted(Runnable task) {
        try {
            return new SubmittedWrite(task, walk0());
        } catch (Throwable problem) {
            return task;
        }
    }

    /** Before the write of such a task. */
    public static void enterSubmitted() {
        try {
            SubmittedWrite write = SUBMITTED.get();
            if (write != null) {
                enterKnown0(write.signature);
            }
        } catch (Throwable problem) {
            // A write without a path.
        }
    }

    /**
     * After a file was mapped; the result is a MappedByteBuffer or a
     * java.lang.foreign.MemorySegment.
     */
    public static void mapped(Object result, Object mode, long size) {
        try {
            // Stores to other mappings do not reach the file.
            if (mode != FileChannel.MapMode.READ_WRITE
                    && !"READ_WRITE_SYNC".equals(mode.toString())) {
                return;
            }
            if (result instanceof java.nio.Buffer) {
                mapped0(result, 0, size);
                return;
            }
            // By reflection, because this is compiled for JDK 11, which has no segments.
            Object address =
                    Class.forName("java.lang.foreign.MemorySegment")
                            .getMethod("address")
                            .invoke(result);
            if (address instanceof Long) {
                mapped0(null, (Long) address, size);
            }
        } catch (Throwable problem) {
            // A mapping without a path.
        }
    }

    static native boolean start0(int depth, int memo, boolean verbose, boolean threads, int walk);

    private static native void enter0(int stream, int frames);

    private static native void leave0();

    private static native long walk0();

    private static native void enterKnown0(long signature);

    private static native void mapped0(Object buffer, long address, long size);
}
