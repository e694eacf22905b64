// SPDX-License-Identifier: MIT OR Apache-2.0

import java.io.FileOutputStream;
import java.io.IOException;
import java.nio.ByteBuffer;
import java.nio.channels.FileChannel;
import java.nio.file.Path;
import java.nio.file.StandardOpenOption;

/**
 * Prints nanoseconds per write of 64 bytes to /dev/null: FileOutputStream, FileChannel.
 *
 * <p>The kernel does next to nothing for these, so the difference that the agent makes is seen
 * best. The writes are made from below ten frames, as in a program.
 */
public final class Bench {
    private static final int WRITES = 200_000;
    private static final int ROUNDS = 7;

    interface Write {
        void run() throws IOException;
    }

    private Bench() {}

    public static void main(String[] arguments) throws IOException {
        byte[] bytes = new byte[64];
        ByteBuffer buffer = ByteBuffer.allocateDirect(64);
        try (FileOutputStream stream = new FileOutputStream("/dev/null");
                FileChannel channel =
                        FileChannel.open(Path.of("/dev/null"), StandardOpenOption.WRITE)) {
            long first = best(() -> stream.write(bytes));
            long second =
                    best(
                            () -> {
                                buffer.clear();
                                channel.write(buffer);
                            });
            System.out.println(first + " " + second);
        }
    }

    /** The first rounds compile; the best of the rest is the least disturbed. */
    private static long best(Write write) throws IOException {
        long best = Long.MAX_VALUE;
        for (int round = 0; round < ROUNDS; round++) {
            long start = System.nanoTime();
            for (int i = 0; i < WRITES; i++) {
                below(9, write);
            }
            best = Math.min(best, (System.nanoTime() - start) / WRITES);
        }
        return best;
    }

    private static void below(int frames, Write write) throws IOException {
        if (frames == 0) {
            write.run();
        } else {
            below(frames - 1, write);
        }
    }
}
