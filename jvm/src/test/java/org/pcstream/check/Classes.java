// SPDX-License-Identifier: MIT OR Apache-2.0
package org.pcstream.check;

import java.io.ByteArrayInputStream;
import java.io.FileOutputStream;
import java.io.IOException;
import java.io.PrintStream;
import java.io.RandomAccessFile;
import java.nio.ByteBuffer;
import java.nio.channels.AsynchronousFileChannel;
import java.nio.channels.Channels;
import java.nio.channels.CompletionHandler;
import java.nio.channels.FileChannel;
import java.nio.channels.ReadableByteChannel;
import java.nio.channels.WritableByteChannel;
import java.nio.file.Files;
import java.nio.file.StandardOpenOption;
import java.util.concurrent.CountDownLatch;

/** Every class of the JDK that writes, each operation with a path of its own. */
final class Classes {
    private Classes() {}

    static void all() throws Exception {
        streams();
        randomAccess();
        channels();
        Program.operation(
                "files", () -> Files.write(Program.directory.resolve("t-files"), new byte[10]));
        asynchronous();
    }

    private static void streams() throws Exception {
        try (FileOutputStream out = Program.stream("t-stream")) {
            Program.operation("streamByte", () -> out.write(1));
            Program.operation("streamBytes", () -> out.write(new byte[10]));
            Program.operation("streamPart", () -> out.write(new byte[10], 1, 5));
            Program.operation("streamPrint", () -> new PrintStream(out).print("text"));
        }
    }

    private static void randomAccess() throws Exception {
        try (RandomAccessFile file =
                new RandomAccessFile(Program.directory.resolve("t-random").toFile(), "rw")) {
            Program.operation("randomByte", () -> file.write(1));
            Program.operation("randomBytes", () -> file.write(new byte[10]));
            Program.operation("randomPart", () -> file.write(new byte[10], 1, 5));
            Program.operation("randomString", () -> file.writeBytes("text"));
            Program.operation("randomLong", () -> file.writeLong(1));
            Program.operation("randomText", () -> file.writeUTF("text"));
        }
    }

    private static void channels() throws Exception {
        try (FileChannel channel = Program.channel("t-channel");
                FileChannel other = Program.channel("t-other")) {
            Program.operation("channelBuffer", () -> channel.write(Program.bytes()));
            Program.operation(
                    "channelBuffers",
                    () -> channel.write(new ByteBuffer[] {Program.bytes(), Program.bytes()}));
            Program.operation("channelAt", () -> channel.write(Program.bytes(), 100));
            Program.operation("channelTruncate", () -> channel.truncate(50));
            Program.operation("channelTo", () -> channel.transferTo(0, 50, other));
            Program.operation("channelFrom", () -> channel.transferFrom(other, 50, 20));
            channelsOfOnesOwn(channel);
            Program.operation(
                    "channelMap",
                    () -> channel.map(FileChannel.MapMode.READ_WRITE, 100, 5000).put(0, (byte) 1));
            Program.operation(
                    "channelMapRead",
                    () -> channel.map(FileChannel.MapMode.READ_ONLY, 0, 100).get(0));
            Program.operation(
                    "channelMapPrivate",
                    () -> channel.map(FileChannel.MapMode.PRIVATE, 0, 100).put(0, (byte) 1));
        }
    }

    /** From and to channels that this program implements. */
    private static void channelsOfOnesOwn(FileChannel channel) throws Exception {
        ReadableByteChannel from =
                Channels.newChannel(
                        new ByteArrayInputStream(new byte[20]) {
                            @Override
                            public synchronized int read(byte[] to, int offset, int length) {
                                Program.mark("insideFrom");
                                return super.read(to, offset, length);
                            }
                        });
        Program.operation("channelFromAny", () -> channel.transferFrom(from, 0, 20));
        WritableByteChannel to =
                new WritableByteChannel() {
                    @Override
                    public int write(ByteBuffer from) throws IOException {
                        Program.mark("insideTo");
                        try (FileOutputStream nested = Program.stream("t-nested")) {
                            nested.write(1);
                        }
                        int length = from.remaining();
                        from.position(from.limit());
                        return length;
                    }

                    @Override
                    public boolean isOpen() {
                        return true;
                    }

                    @Override
                    public void close() {
                        // Nothing to close.
                    }
                };
        Program.operation("channelToAny", () -> channel.transferTo(0, 10, to));
    }

    private static void asynchronous() throws Exception {
        try (AsynchronousFileChannel channel =
                AsynchronousFileChannel.open(
                        Program.directory.resolve("t-later"),
                        StandardOpenOption.CREATE,
                        StandardOpenOption.WRITE)) {
            Program.operation("laterFuture", () -> channel.write(Program.bytes(), 0).get());
            Program.operation(
                    "laterHandler",
                    () -> {
                        CountDownLatch done = new CountDownLatch(1);
                        channel.write(
                                Program.bytes(),
                                0,
                                done,
                                new CompletionHandler<Integer, CountDownLatch>() {
                                    @Override
                                    public void completed(Integer count, CountDownLatch latch) {
                                        Program.mark("insideHandler");
                                        try (FileOutputStream out = Program.stream("t-handler")) {
                                            out.write(1);
                                        } catch (IOException problem) {
                                            throw new IllegalStateException(problem);
                                        }
                                        Program.mark("insideHandlerLater");
                                        latch.countDown();
                                    }

                                    @Override
                                    public void failed(Throwable problem, CountDownLatch latch) {
                                        problem.printStackTrace();
                                    }
                                });
                        done.await();
                    });
            Program.operation("laterTruncate", () -> channel.truncate(1));
        }
    }
}
