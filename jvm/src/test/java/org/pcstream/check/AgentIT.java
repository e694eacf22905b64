// SPDX-License-Identifier: MIT OR Apache-2.0
package org.pcstream.check;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertNotEquals;
import static org.junit.jupiter.api.Assertions.assertTrue;
import static org.junit.jupiter.api.Assumptions.assumeTrue;

import java.io.IOException;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.Collections;
import java.util.HashSet;
import java.util.List;
import java.util.Set;
import java.util.jar.JarFile;
import java.util.regex.Matcher;
import java.util.regex.Pattern;
import java.util.stream.Collectors;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.io.TempDir;

/** The packaged agent, seen from where the kernel side will see it. */
class AgentIT {
    private static final String ME = "org.pcstream.check.Program";
    private static final String CLASSES = "org.pcstream.check.Classes";

    /**
     * Compiles what can be on a path to a write before its first call. All of the JDK would take a
     * quarter of a minute.
     */
    private static final List<String> COMPILED =
            List.of(
                    "-Xcomp",
                    "-XX:CompileCommand=quiet",
                    "-XX:CompileCommand=compileonly,org.pcstream.*::*",
                    "-XX:CompileCommand=compileonly,java.io.*::*",
                    "-XX:CompileCommand=compileonly,java.nio.*::*",
                    "-XX:CompileCommand=compileonly,sun.nio.*::*");

    @TempDir Path directory;

    private Run run(String agent, String... arguments) throws Exception {
        return run(agent, List.of("-Xverify:all"), arguments);
    }

    private Run run(String agent, List<String> jvm, String... arguments) throws Exception {
        Run run = new Run(directory, agent, jvm, arguments);
        assertEquals(0, run.exit, run.err);
        assertTrue(run.out.contains("done"), run.out + run.err);
        for (Run.Call call : run.calls) {
            if (call.function.equals("mkdir")) {
                assertEquals(Run.NONE, call.signature, call.toString());
            }
        }
        run.paths.forEach((signature, text) -> assertEquals(signature, Run.signature(text), text));
        return run;
    }

    @Test
    void goldenSignaturesAndNames() throws Exception {
        Process process =
                new ProcessBuilder(Run.NATIVE.resolve("names").toString())
                        .redirectErrorStream(true)
                        .start();
        String out = new String(process.getInputStream().readAllBytes(), StandardCharsets.UTF_8);
        assertEquals(0, process.waitFor(), out);
        assertEquals(
                "fd8720e4c1424817",
                Run.signature(
                        "org.example.Log|append|17;org.example.Store$Flush|run|120;org.example.Main|main|-1;"));
    }

    @Test
    void pathsIntoOneChannelDifferAndHoldOverRunsAndCompilers() throws Exception {
        List<String> first = run("", "paths").signatures("t-one");
        assertEquals(6, first.size());
        assertNotEquals(first.get(0), first.get(1));
        assertEquals(first.subList(0, 2), first.subList(2, 4));
        assertEquals(first.subList(0, 2), first.subList(4, 6));
        assertFalse(first.contains(Run.NONE));
        assertEquals(first, run("", "paths").signatures("t-one"));
        assertEquals(first, run("", List.of("-Xint"), "paths").signatures("t-one"));
        assertEquals(first, run("", COMPILED, "paths").signatures("t-one"));
        assertEquals(
                first, run("", List.of("-XX:TieredStopAtLevel=1"), "paths").signatures("t-one"));
    }

    @Test
    void depthCountsFrames() throws Exception {
        Run one = run("depth=1", "paths");
        Set<String> signatures = new HashSet<>(one.signatures("t-one"));
        assertEquals(1, signatures.size());
        assertEquals(1, one.texts("t-one").get(0).split(";").length);
        assertEquals(3, run("depth=3", "paths").texts("t-one").get(0).split(";").length);
        assertEquals(17, run("depth=16", "deep").texts("t-deep").get(0).split(";").length + 1);
        assertFalse(run("depth=16", "deep").signatures("t-deep").contains(Run.NONE));
    }

    /** The frame of the program that a call on a file must have innermost. */
    private static void assertInnermost(Run run, String file, String... methods) {
        List<String> innermost =
                run.texts(file).stream()
                        .map(
                                text ->
                                        text.isEmpty()
                                                ? "none"
                                                : text.split(";")[0].replaceAll("\\|[0-9]+$", ""))
                        .distinct()
                        .collect(Collectors.toList());
        assertEquals(List.of(methods), innermost, run.calls.toString());
    }

    @Test
    void everyClassPublishes() throws Exception {
        Run run = run("depth=1", "classes");
        String lambda = CLASSES + "|lambda$streams$";
        Run stand = run;
        for (String file :
                List.of(
                        "t-stream",
                        "t-random",
                        "t-channel",
                        "t-other",
                        "t-files",
                        "t-later",
                        "t-nested",
                        "t-handler")) {
            List<String> signatures = stand.signatures(file);
            assertFalse(signatures.isEmpty(), file);
            assertFalse(signatures.contains(Run.NONE), file + stand.calls);
            for (String text : stand.texts(file)) {
                assertTrue(text.startsWith(CLASSES), file + ": " + text);
            }
        }
        // Each operation is a lambda of its own, so a path of its own.
        assertEquals(4, new HashSet<>(run.signatures("t-stream")).size());
        assertEquals(6, new HashSet<>(run.signatures("t-random")).size());
        assertTrue(run.texts("t-stream").stream().allMatch(text -> text.startsWith(lambda)));
        Set<String> channel =
                run.calls.stream()
                        .filter(call -> call.file.equals("t-channel"))
                        .map(call -> call.function)
                        .collect(Collectors.toSet());
        assertTrue(
                channel.containsAll(Set.of("write", "writev", "pwrite", "ftruncate")),
                channel.toString());
        assertTrue(new HashSet<>(run.signatures("t-channel")).size() >= 6, run.calls.toString());
        assertEquals(1, new HashSet<>(run.signatures("t-other")).size());
        assertTrue(run.signatures("t-later").size() >= 3);
        assertEquals(3, new HashSet<>(run.signatures("t-later")).size());
        // Writes inside another call, and in a handler, have their own paths.
        assertInnermost(run, "t-nested", CLASSES + "$2|write");
        assertInnermost(run, "t-handler", CLASSES + "$3|completed");
    }

    @Test
    void mappingsAreRegistered() throws Exception {
        Run run = run("depth=1", "classes");
        assertEquals(1, run.mapped.size(), run.mapped.toString());
        String[] words = run.mapped.get(0).split(" ");
        assertEquals(2, words.length, run.mapped.toString());
        assertEquals("5100", words[0]);
        assertTrue(run.paths.get(words[1]).startsWith(CLASSES + "|lambda$channels$"));
    }

    @Test
    void failuresResetTheSlot() throws Exception {
        Run run = run("", "failures");
        assertTrue(run.signatures("full").size() >= 5, run.calls.toString());
        assertFalse(run.signatures("full").contains(Run.NONE), run.calls.toString());
        assertTrue(run.calls.stream().filter(call -> call.function.equals("mkdir")).count() >= 7);
    }

    @Test
    void generatedClassesHaveStableNames() throws Exception {
        Run first = run("", "names", "0");
        Run second = run("", "names", "7");
        assertEquals(first.texts("t-names"), second.texts("t-names"));
        assertEquals(first.signatures("t-names"), second.signatures("t-names"));
        assertTrue(
                first.texts("t-names").get(0).contains("Program$$Lambda|"),
                first.texts("t-names").get(0));
        assertTrue(
                first.texts("t-names").get(1).contains(".$Proxy|"), first.texts("t-names").get(1));
        assertEquals(1, new HashSet<>(first.signatures("t-names").subList(2, 42)).size());
    }

    @Test
    void theJdkAloneHasNoPath() throws Exception {
        List<String> signatures = run("", "jdk").signatures("t-jdk");
        assertEquals(Run.NONE, signatures.get(0));
        assertNotEquals(Run.NONE, signatures.get(1));
    }

    @Test
    void threadsKeepTheirPaths() throws Exception {
        Run run = run("", "threads", "8", "20000");
        Set<String> all = new HashSet<>();
        for (int i = 0; i < 8; i++) {
            List<String> signatures = run.signatures("t-" + i);
            assertEquals(20000, signatures.size());
            assertEquals(1, new HashSet<>(signatures).size());
            all.addAll(signatures);
        }
        assertEquals(8, all.size());
        assertFalse(all.contains(Run.NONE));
        assertTrue(run.slots >= 8);
    }

    @Test
    void virtualThreadsKeepTheirPaths() throws Exception {
        assumeTrue(Run.feature() >= 21);
        List<String> signatures = run("", "virtual").signatures("t-shared");
        assertEquals(10000, signatures.size());
        assertEquals(1, new HashSet<>(signatures).size(), new HashSet<>(signatures).toString());
        assertFalse(signatures.contains(Run.NONE));
    }

    /** How many paths both ways to walk found alike. None may differ. */
    private long alike(List<String> jvm, String... arguments) throws Exception {
        Run run = run("walk=both", jvm, arguments);
        Matcher counts =
                Pattern.compile("walked both ways (\\d+) alike, (\\d+) unlike").matcher(run.err);
        assertTrue(counts.find(), run.err);
        assertEquals(
                "0", counts.group(2), String.join(" ", arguments) + " " + jvm + ": " + run.err);
        return Long.parseLong(counts.group(1));
    }

    @Test
    void bothWalksTellOnePath() throws Exception {
        for (String mode : List.of("paths", "classes", "deep", "roles", "recursive")) {
            alike(List.of("-Xmixed"), mode);
        }
        alike(List.of("-Xmixed"), "names", "7");
        assertTrue(alike(List.of("-Xmixed"), "threads", "8", "2000") > 15_000);
        for (List<String> compiler :
                List.of(List.of("-Xint"), COMPILED, List.of("-XX:TieredStopAtLevel=1"))) {
            assertTrue(alike(compiler, "churn", "1000") > 500, compiler.toString());
        }
        for (String collector :
                List.of("-XX:+UseSerialGC", "-XX:+UseParallelGC", "-XX:+UseG1GC", "-XX:+UseZGC")) {
            assertTrue(
                    alike(
                                    List.of(
                                            "-XX:+UnlockExperimentalVMOptions",
                                            collector,
                                            "-Xmx64m"),
                                    "churn",
                                    "1000")
                            > 500,
                    collector);
        }
    }

    @Test
    void eitherWalkTellsTheSame() throws Exception {
        // Long enough for quick walks, which begin after some by JVMTI.
        List<String> thread = run("walk=jvmti", "threads", "1", "2000").signatures("t-0");
        List<String> recursive = run("walk=jvmti,depth=9", "recursive").signatures("t-recursive");
        assertEquals(2000, thread.size());
        assertEquals(2000, recursive.size());
        assertEquals(thread, run("walk=quick", "threads", "1", "2000").signatures("t-0"));
        assertEquals(recursive, run("walk=quick,depth=9", "recursive").signatures("t-recursive"));
    }

    @Test
    void rolesTellThreadsOfOnePathApart() throws Exception {
        List<String> without = run("", "roles").signatures("t-roles");
        assertEquals(8, without.size());
        Run run = run("threads", "roles");
        List<String> roles = run.signatures("t-roles");
        // Two writes of each thread, from two lines.
        assertEquals(2, new HashSet<>(without).size());
        assertEquals(4, new HashSet<>(roles).size());
        assertEquals(roles.subList(0, 4), roles.subList(4, 8));
        assertEquals(
                List.of("thread.Flush:#", "thread.Flush:#", "thread.Compact:#", "thread.Compact:#"),
                run.texts("t-roles").subList(0, 4).stream()
                        .map(AgentIT::outermost)
                        .collect(Collectors.toList()));
        assertEquals(roles, run("threads", List.of("-Xint"), "roles").signatures("t-roles"));
    }

    private static String outermost(String text) {
        String[] frames = text.split(";");
        String[] parts = frames[frames.length - 1].split("\\|");
        return parts[0] + "." + parts[1];
    }

    @Test
    void virtualThreadsHaveNoRole() throws Exception {
        assumeTrue(Run.feature() >= 21);
        List<String> without = run("", "virtual").signatures("t-shared");
        assertEquals(
                new HashSet<>(without),
                new HashSet<>(run("threads", "virtual").signatures("t-shared")));
    }

    @Test
    void memoLooksAgainAfterSomeWrites() throws Exception {
        List<String> exact = run("", "memo").signatures("t-memo");
        List<String> memo = run("memo=64", "memo").signatures("t-memo");
        String compaction = exact.get(0);
        String checkpoint = exact.get(10);
        assertNotEquals(compaction, checkpoint);
        assertEquals(Collections.nCopies(64, compaction), memo.subList(0, 64));
        assertEquals(Collections.nCopies(46, checkpoint), memo.subList(64, 110));
    }

    @Test
    void slotsAreRepeatedEachSecond() throws Exception {
        Run run = run("", "again");
        assertEquals(1, new HashSet<>(run.signatures("t-again")).size());
        // Whoever comes late finds the names behind the slot of every call.
        assertTrue(
                run.announcements >= run.signatures("t-again").size(),
                "names " + run.announcements);
        assertTrue(
                run.slots >= 3 && run.slots <= run.seconds + 2,
                run.slots + " registrations in " + run.seconds + " s");
    }

    @Test
    void verboseNamesPaths() throws Exception {
        Run run = run("verbose", "paths");
        String signature = run.signatures("t-one").get(0);
        assertTrue(run.err.contains("pcstream: " + signature + " " + ME + ".common:"), run.err);
        assertEquals("", run("", "paths").err.replaceAll("(?m)^OpenJDK.*\\R?", ""));
    }

    @Test
    void badOptionsDoNotKill() throws Exception {
        for (String[] option :
                new String[][] {
                    {"depth=99", "depth=99", "1 to 32"},
                    {"depth=x", "depth=x", "depth=5"},
                    {"memo=0", "memo=0", "memo=64"},
                    {"memo", "memo", "memo=64"},
                    {"colour=red", "colour=red", "known are"},
                    {"verbose=1", "verbose=1", "write verbose"},
                    {"threads=1", "threads=1", "write threads"},
                    {"walk=fast", "walk=fast", "walk=quick"},
                    {"walk", "walk", "walk=jvmti"}
                }) {
            Run run = run(option[0], "paths");
            assertTrue(
                    run.err.contains("pcstream: option " + option[1])
                            && run.err.contains(option[2])
                            && run.err.contains("without the agent"),
                    run.err);
            assertEquals(0, run.slots);
            assertEquals(
                    List.of(Run.NONE),
                    run.signatures("t-one").stream().distinct().collect(Collectors.toList()));
        }
    }

    @Test
    void aMissingLibraryDoesNotKill() throws Exception {
        Run run = run("", List.of("-Djava.io.tmpdir=/nonexistent"), "paths");
        assertTrue(run.err.contains("pcstream: cannot load the native library"), run.err);
        assertTrue(run.err.contains("without the agent"), run.err);
        assertEquals(0, run.slots);
    }

    @Test
    void nothingStaysInTheTemporaryDirectory() throws Exception {
        Path temporary = Files.createDirectory(directory.resolve("temporary"));
        run("", List.of("-Djava.io.tmpdir=" + temporary), "paths");
        try (java.util.stream.Stream<Path> files = Files.list(temporary)) {
            assertEquals(
                    List.of(),
                    files.filter(file -> file.getFileName().toString().startsWith("pcstream"))
                            .collect(Collectors.toList()));
        }
    }

    @Test
    void attachesToARunningProgram() throws Exception {
        Run run = run(null, List.of("-Djdk.attach.allowAttachSelf=true"), "attach", Run.JAR);
        List<String> signatures = run.signatures("t-attach");
        assertEquals(2, signatures.size());
        assertEquals(Run.NONE, signatures.get(0));
        assertNotEquals(Run.NONE, signatures.get(1));
        assertEquals(3, run.texts("t-attach").get(1).split(";").length);
        assertTrue(run.err.contains("the agent is there already"), run.err);
    }

    @Test
    void theJarHasNothingElse() throws IOException {
        try (JarFile jar = new JarFile(Run.JAR)) {
            List<String> others =
                    jar.stream()
                            .map(entry -> entry.getName())
                            .filter(
                                    name ->
                                            !name.endsWith("/")
                                                    && !name.startsWith("org/pcstream/agent/"))
                            .sorted()
                            .collect(Collectors.toList());
            assertEquals(
                    List.of("META-INF/LICENSE-ASM", "META-INF/MANIFEST.MF", "libpcstream-agent.so"),
                    others);
        }
    }
}
