// SPDX-License-Identifier: MIT OR Apache-2.0
package org.pcstream.check;

import java.io.File;
import java.io.FileOutputStream;
import java.io.IOException;
import java.io.PrintStream;
import java.io.RandomAccessFile;
import java.lang.invoke.MethodHandle;
import java.lang.invoke.MethodHandleProxies;
import java.lang.invoke.MethodHandles;
import java.lang.invoke.MethodType;
import java.lang.reflect.Proxy;
import java.nio.ByteBuffer;
import java.nio.channels.AsynchronousFileChannel;
import java.nio.channels.CompletionHandler;
import java.nio.channels.FileChannel;
import java.nio.file.Path;
import java.nio.file.StandardOpenOption;
import java.util.ArrayList;
import java.util.Collections;
import java.util.List;
import java.util.Random;
import java.util.concurrent.CountDownLatch;
import java.util.stream.Stream;

/**
 * The program that tests run with the agent: one mode per test, writing to files t-* of a
 * directory. A directory that it makes marks a moment at which no path may be published.
 */
public final class Program {
    static Path directory;

    interface Action {
        void run() throws Exception;
    }

    /** Not public, so that its proxies are made in this package. */
    interface Target {
        void write(FileOutputStream stream) throws IOException;
    }

    private Program() {}

    public static void main(String[] arguments) throws Exception {
        directory = Path.of(arguments[1]);
        switch (arguments[0]) {
            case "paths":
                paths();
                break;
            case "classes":
                Classes.all();
                break;
            case "failures":
                failures();
                break;
            case "names":
                names(Integer.parseInt(arguments[2]));
                break;
            case "jdk":
                jdk();
                break;
            case "threads":
                threads(Integer.parseInt(arguments[2]), Integer.parseInt(arguments[3]));
                break;
            case "virtual":
                virtual();
                break;
            case "memo":
                memo();
                break;
            case "roles":
                roles();
                break;
            case "again":
                again();
                break;
            case "attach":
                attach(arguments[2]);
                break;
            case "deep":
                deep(100);
                break;
            case "churn":
                churn(Integer.parseInt(arguments[2]));
                break;
            case "recursive":
                if (arguments.length < 6) {
                    main(
                            Stream.concat(Stream.of(arguments), Stream.of("again"))
                                    .toArray(String[]::new));
                    return;
                }
                recursive();
                break;
            default:
                throw new IllegalArgumentException(arguments[0]);
        }
        System.out.println("done");
    }

    static FileChannel channel(String name) throws IOException {
        return FileChannel.open(
                directory.resolve(name),
                StandardOpenOption.CREATE,
                StandardOpenOption.READ,
                StandardOpenOption.WRITE);
    }

    static FileOutputStream stream(String name) throws IOException {
        return new FileOutputStream(directory.resolve(name).toFile());
    }

    static ByteBuffer bytes() {
        return ByteBuffer.allocate(10);
    }

    static void mark(String name) {
        directory.resolve("t-after-" + name).toFile().mkdir();
    }

    private static void paths() throws Exception {
        try (FileChannel channel = channel("t-one")) {
            for (int i = 0; i < 3; i++) {
                compaction(channel);
                checkpoint(channel);
            }
        }
    }

    private static void compaction(FileChannel channel) throws IOException {
        common(channel);
    }

    private static void checkpoint(FileChannel channel) throws IOException {
        common(channel);
    }

    private static void common(FileChannel channel) throws IOException {
        channel.write(bytes());
    }

    static void operation(String name, Action action) throws Exception {
        action.run();
        mark(name);
    }

    private static void failing(String name, Action action) throws Exception {
        try {
            action.run();
            throw new IllegalStateException(name + " should have failed");
        } catch (IOException expected) {
            mark(name);
        }
    }

    private static void failures() throws Exception {
        File full = new File("/dev/full");
        try (FileOutputStream out = new FileOutputStream(full)) {
            failing("streamByte", () -> out.write(1));
            failing("streamBytes", () -> out.write(new byte[10]));
        }
        try (RandomAccessFile file = new RandomAccessFile(full, "rw")) {
            failing("random", () -> file.writeLong(1));
        }
        try (FileChannel channel = FileChannel.open(full.toPath(), StandardOpenOption.WRITE)) {
            failing("channel", () -> channel.write(bytes()));
            failing("channelBuffers", () -> channel.write(new ByteBuffer[] {bytes(), bytes()}));
        }
        FileChannel closed = channel("t-closed");
        closed.close();
        failing("truncate", () -> closed.truncate(1));
        AsynchronousFileChannel later =
                AsynchronousFileChannel.open(full.toPath(), StandardOpenOption.WRITE);
        CountDownLatch done = new CountDownLatch(1);
        later.write(
                bytes(),
                0,
                null,
                new CompletionHandler<Integer, Object>() {
                    @Override
                    public void completed(Integer count, Object nothing) {
                        System.out.println("should have failed");
                    }

                    @Override
                    public void failed(Throwable problem, Object nothing) {
                        mark("later");
                        done.countDown();
                    }
                });
        done.await();
        later.close();
    }

    /** Makes classes whose names depend on how many were made before. */
    private static void names(int before) throws Exception {
        MethodHandles.Lookup lookup = MethodHandles.lookup();
        for (int i = 0; i < before; i++) {
            MethodHandle handle =
                    lookup.findStatic(
                            Program.class, "bytes", MethodType.methodType(ByteBuffer.class));
            MethodHandleProxies.asInterfaceInstance(java.util.function.Supplier.class, handle);
            Action other =
                    i % 2 == 0 ? () -> System.getProperty("a") : () -> System.getProperty("b");
            other.run();
        }
        if (before > 0) {
            // A proxy class of another set of interfaces takes the first number.
            Proxy.newProxyInstance(
                    Program.class.getClassLoader(),
                    new Class<?>[] {Target.class, Action.class},
                    (proxy, method, arguments) -> null);
        }
        try (FileOutputStream out = stream("t-names")) {
            Action lambda = () -> out.write(1);
            lambda.run();
            Target proxied =
                    (Target)
                            Proxy.newProxyInstance(
                                    Program.class.getClassLoader(),
                                    new Class<?>[] {Target.class},
                                    (proxy, method, arguments) -> {
                                        ((FileOutputStream) arguments[0]).write(1);
                                        return null;
                                    });
            proxied.write(out);
            Target reference = Program::reflected;
            for (int i = 0; i < 40; i++) {
                // Reflection changes its means after a number of calls.
                Program.class
                        .getDeclaredMethod("reflected", FileOutputStream.class)
                        .invoke(null, out);
            }
            reference.write(out);
        }
    }

    private static void reflected(FileOutputStream out) throws IOException {
        out.write(1);
    }

    private static void jdk() throws Exception {
        try (FileOutputStream out = stream("t-jdk")) {
            MethodHandle write =
                    MethodHandles.lookup()
                            .findVirtual(
                                    FileOutputStream.class,
                                    "write",
                                    MethodType.methodType(void.class, byte[].class))
                            .bindTo(out)
                            .bindTo(new byte[10]);
            Thread thread =
                    new Thread(MethodHandleProxies.asInterfaceInstance(Runnable.class, write));
            thread.start();
            thread.join();
            out.write(1);
        }
    }

    private static void each(int i, FileChannel channel) throws IOException {
        switch (i) {
            case 0:
                channel.write(bytes(), 0);
                break;
            case 1:
                channel.write(bytes(), 0);
                break;
            case 2:
                channel.write(bytes(), 0);
                break;
            case 3:
                channel.write(bytes(), 0);
                break;
            case 4:
                channel.write(bytes(), 0);
                break;
            case 5:
                channel.write(bytes(), 0);
                break;
            case 6:
                channel.write(bytes(), 0);
                break;
            default:
                channel.write(bytes(), 0);
                break;
        }
    }

    private static void threads(int count, int writes) throws Exception {
        List<Thread> threads = new ArrayList<>();
        for (int i = 0; i < count; i++) {
            int me = i;
            threads.add(
                    new Thread(
                            () -> {
                                try (FileChannel channel = channel("t-" + me)) {
                                    for (int n = 0; n < writes; n++) {
                                        each(me, channel);
                                    }
                                } catch (IOException problem) {
                                    throw new IllegalStateException(problem);
                                }
                            }));
        }
        for (Thread thread : threads) {
            thread.start();
        }
        for (Thread thread : threads) {
            thread.join();
        }
    }

    /** Virtual threads that contend for the lock of one channel. */
    private static void virtual() throws Exception {
        CountDownLatch done = new CountDownLatch(200);
        try (FileChannel channel = channel("t-shared")) {
            for (int i = 0; i < 200; i++) {
                int me = i;
                Runnable task =
                        () -> {
                            try {
                                for (int n = 0; n < 50; n++) {
                                    channel.write(bytes());
                                    mark("virtual" + me % 8);
                                    Thread.yield();
                                }
                            } catch (IOException problem) {
                                throw new IllegalStateException(problem);
                            } finally {
                                done.countDown();
                            }
                        };
                startVirtual(task);
            }
            done.await();
        }
    }

    /** Written by a main that called itself, and by a thread whose run did. */
    private static void recursive() throws Exception {
        try (FileChannel channel = channel("t-recursive")) {
            for (int i = 0; i < 1000; i++) {
                channel.write(bytes(), 0);
            }
            Thread thread =
                    new Thread() {
                        private int runs;

                        @Override
                        public void run() {
                            if (++runs % 3 != 0) {
                                run();
                                return;
                            }
                            try {
                                for (int i = 0; i < 1000; i++) {
                                    channel.write(bytes(), 0);
                                }
                            } catch (IOException problem) {
                                throw new IllegalStateException(problem);
                            }
                        }
                    };
            thread.start();
            thread.join();
        }
    }

    private static void startVirtual(Runnable task) throws ReflectiveOperationException {
        Thread.class.getMethod("startVirtualThread", Runnable.class).invoke(null, task);
    }

    /**
     * Threads, virtual ones too where there are any, that write from stacks of all heights, and
     * make garbage. Each does so for some time, and a hundred times at least.
     */
    private static void churn(int millis) throws Exception {
        int threads = 4;
        int virtual = Runtime.version().feature() >= 21 ? 100 : 0;
        CountDownLatch done = new CountDownLatch(threads + virtual);
        List<Throwable> problems = Collections.synchronizedList(new ArrayList<>());
        long end = System.nanoTime() + millis * 1_000_000L;
        try (FileChannel channel = channel("churn")) {
            for (int i = 0; i < threads + virtual; i++) {
                Random random = new Random(i);
                Runnable task =
                        () -> {
                            try {
                                for (int n = 0; n < 100 || System.nanoTime() < end; n++) {
                                    down(random.nextInt(40), random, channel);
                                }
                            } catch (Throwable problem) {
                                problems.add(problem);
                            } finally {
                                done.countDown();
                            }
                        };
                if (i < threads) {
                    new Thread(task).start();
                } else {
                    startVirtual(task);
                }
            }
            done.await();
        }
        if (!problems.isEmpty()) {
            throw new IllegalStateException(problems.get(0));
        }
    }

    /**
     * Writes at the bottom and on the way back, where a virtual thread has most of its frames in
     * the heap.
     */
    private static byte[] down(int more, Random random, FileChannel channel) throws Exception {
        byte[] garbage = new byte[random.nextInt(2000)];
        if (more == 0) {
            Thread.yield();
        } else if (random.nextBoolean()) {
            Action lambda = () -> down(more - 1, random, channel);
            lambda.run();
        } else if (random.nextInt(50) == 0) {
            try {
                Program.class
                        .getDeclaredMethod("down", int.class, Random.class, FileChannel.class)
                        .invoke(null, more - 1, random, channel);
            } finally {
                channel.write(bytes(), 0);
            }
        } else {
            garbage = down(more - 1, random, channel);
        }
        if (more % 7 == 0) {
            channel.write(bytes(), 0);
        }
        return garbage;
    }

    private static void roles() throws Exception {
        try (FileChannel channel = channel("t-roles")) {
            for (String name : new String[] {"Flush:1", "Compact:1", "Flush:22", "Compact:3"}) {
                Thread thread =
                        new Thread(
                                () -> {
                                    try {
                                        common(channel);
                                        common(channel);
                                    } catch (IOException problem) {
                                        throw new IllegalStateException(problem);
                                    }
                                },
                                name);
                thread.start();
                thread.join();
            }
        }
    }

    private static void memo() throws Exception {
        try (FileChannel channel = channel("t-memo")) {
            for (int i = 0; i < 10; i++) {
                compaction(channel);
            }
            for (int i = 0; i < 100; i++) {
                checkpoint(channel);
            }
        }
    }

    private static void again() throws Exception {
        try (FileChannel channel = channel("t-again")) {
            long start = System.nanoTime();
            while (System.nanoTime() - start < 2_500_000_000L) {
                common(channel);
                Thread.sleep(1);
            }
        }
    }

    private static void deep(int more) throws Exception {
        if (more > 0) {
            deep(more - 1);
            return;
        }
        try (FileOutputStream out = stream("t-deep")) {
            // Many JDK frames between the write and the program.
            java.util.function.Consumer<String> writer = text -> new PrintStream(out).print(text);
            List.of("text").stream().map(text -> text).forEach(writer);
            PrintStream print = new PrintStream(out);
            for (int i = 0; i < 20; i++) {
                print = new PrintStream(new java.io.BufferedOutputStream(print), true);
            }
            print.write(1);
            print.flush();
        }
    }

    private static void attach(String jar) throws Exception {
        try (FileChannel channel = channel("t-attach")) {
            common(channel);
            Class<?> machine = Class.forName("com.sun.tools.attach.VirtualMachine");
            Object self =
                    machine.getMethod("attach", String.class)
                            .invoke(null, Long.toString(ProcessHandle.current().pid()));
            machine.getMethod("loadAgent", String.class, String.class).invoke(self, jar, "depth=3");
            machine.getMethod("loadAgent", String.class, String.class).invoke(self, jar, "depth=4");
            common(channel);
        }
    }
}
