// SPDX-License-Identifier: MIT OR Apache-2.0
package org.pcstream.check;

import java.io.IOException;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.concurrent.TimeUnit;
import java.util.stream.Collectors;

/**
 * One run of {@link Program} with the packaged agent and a stand-in for the kernel (kernel.c), and
 * what that saw.
 */
final class Run {
    static final String NONE = "0000000000000000";
    static final String JAR = System.getProperty("pcstream.test.jar");
    private static final String JAVA = System.getProperty("pcstream.test.java");
    private static final String CLASSES = System.getProperty("pcstream.test.classes");
    static final Path NATIVE = Path.of(System.getProperty("pcstream.test.native"));

    /** A call into the kernel: function, file, thread, signature. */
    static final class Call {
        final String function;
        final String file;
        final String signature;

        Call(String[] words) {
            function = words[1];
            file = words[2];
            signature = words[4];
        }

        @Override
        public String toString() {
            return function + " " + file + " " + signature;
        }
    }

    final int exit;
    final String out;
    final String err;
    final List<Call> calls = new ArrayList<>();

    /** Text of each signature. */
    final Map<String, String> paths = new LinkedHashMap<>();

    /** Lines "length signature". */
    final List<String> mapped = new ArrayList<>();

    int slots;
    int announcements;

    /** How long the program ran. */
    final double seconds;

    /** Runs the program with the agent's options (null: no agent) and options of the JVM. */
    Run(Path directory, String agent, List<String> jvm, String... arguments) throws Exception {
        Path place = Files.createTempDirectory(directory, "run");
        Path work = Files.createDirectory(place.resolve("work"));
        List<String> command =
                new ArrayList<>(List.of(JAVA, "-XX:+EnableDynamicAgentLoading", "-Xshare:auto"));
        if (feature() >= 24) {
            command.add("--enable-native-access=ALL-UNNAMED");
        }
        command.addAll(jvm);
        if (agent != null) {
            command.add("-javaagent:" + JAR + (agent.isEmpty() ? "" : "=" + agent));
        }
        command.addAll(
                List.of("-cp", CLASSES, Program.class.getName(), arguments[0], work.toString()));
        command.addAll(Arrays.asList(arguments).subList(1, arguments.length));
        Path log = place.resolve("log");
        ProcessBuilder builder = new ProcessBuilder(command);
        builder.environment().put("LD_PRELOAD", NATIVE.resolve("libkernel.so").toString());
        builder.environment().put("PCSTREAM_TEST_LOG", log.toString());
        builder.environment().remove("JAVA_TOOL_OPTIONS");
        builder.redirectOutput(place.resolve("out").toFile());
        builder.redirectError(place.resolve("err").toFile());
        long start = System.nanoTime();
        Process process = builder.start();
        if (!process.waitFor(180, TimeUnit.SECONDS)) {
            process.destroyForcibly();
            throw new IllegalStateException(command + " does not end");
        }
        seconds = (System.nanoTime() - start) / 1e9;
        exit = process.exitValue();
        out = Files.readString(place.resolve("out"));
        err = Files.readString(place.resolve("err"));
        for (String line : Files.readAllLines(log)) {
            String[] words = line.split(" ", 5);
            switch (words[0]) {
                case "call":
                    calls.add(new Call(words));
                    break;
                case "path":
                    paths.put(words[1], words[3]);
                    announcements++;
                    break;
                case "mapped":
                    mapped.add(line.substring("mapped ".length()));
                    break;
                default:
                    slots++;
            }
        }
    }

    /** Version of the JDK under test. */
    static int feature() {
        try {
            Process process =
                    new ProcessBuilder(JAVA, "-version").redirectErrorStream(true).start();
            String text =
                    new String(process.getInputStream().readAllBytes(), StandardCharsets.UTF_8);
            process.waitFor();
            return Integer.parseInt(text.substring(text.indexOf('"') + 1).split("[.\"-]")[0]);
        } catch (IOException | InterruptedException problem) {
            throw new IllegalStateException(problem);
        }
    }

    /** Signatures of the calls on a file, in order. */
    List<String> signatures(String file) {
        return calls.stream()
                .filter(call -> call.file.equals(file))
                .map(call -> call.signature)
                .collect(Collectors.toList());
    }

    /** Path texts of the calls on a file. */
    List<String> texts(String file) {
        return signatures(file).stream()
                .map(one -> paths.getOrDefault(one, ""))
                .collect(Collectors.toList());
    }

    /** The hash of the C code, written once more. */
    static String signature(String text) {
        long hash = SEED;
        for (String frame : text.isEmpty() ? new String[0] : text.split(";")) {
            String[] parts = frame.split("\\|");
            hash = mix(hash, bytes(parts[0]));
            hash = mix(hash, bytes(parts[1]));
            hash = mix(hash, Long.parseLong(parts[2]));
        }
        return String.format("%016x", hash == 0 ? 1 : hash);
    }

    private static final long SEED = 0x243f6a8885a308d3L;

    private static long mix(long hash, long word) {
        long product = (hash ^ word) * 0x9e3779b97f4a7c15L;
        return product ^ product >>> 32;
    }

    private static long bytes(String text) {
        byte[] bytes = text.getBytes(StandardCharsets.UTF_8);
        long hash = mix(SEED, bytes.length);
        for (int at = 0; at < bytes.length; at += 8) {
            long word = 0;
            for (int i = 0; i < 8 && at + i < bytes.length; i++) {
                word |= (bytes[at + i] & 0xffL) << 8 * i;
            }
            hash = mix(hash, word);
        }
        return hash;
    }
}
