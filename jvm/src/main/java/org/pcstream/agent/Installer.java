// SPDX-License-Identifier: MIT OR Apache-2.0
package org.pcstream.agent;

import java.io.IOException;
import java.io.InputStream;
import java.lang.instrument.Instrumentation;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.List;
import java.util.jar.JarFile;

/**
 * Starts the agent: options, native library, instrumentation, in this order, so that instrumented
 * code never runs before what it calls is there.
 */
public final class Installer {
    private static final String LIBRARY = "libpcstream-agent.so";

    /**
     * Of this class on the boot class path, of which there is one, however often the agent is asked
     * for.
     */
    private static boolean installed;

    private Installer() {}

    public static synchronized void install(
            String text, Instrumentation instrumentation, JarFile jar) {
        if (installed) {
            tell("the agent is there already, options " + text + " are ignored");
            return;
        }
        Options options;
        try {
            options = Options.parse(text);
        } catch (IllegalArgumentException problem) {
            tell(problem.getMessage() + "; the program runs on without the agent");
            return;
        }
        try {
            load(jar);
        } catch (UnsatisfiedLinkError | IOException problem) {
            tell(
                    "cannot load the native library (it needs Linux on x86-64 with glibc, and a java.io.tmpdir from "
                            + "which programs may be run): "
                            + problem.getMessage()
                            + "; the program runs on without the agent");
            return;
        }
        if (!PcStreamHook.start0(
                options.depth,
                options.memo,
                options.verbose,
                options.threads,
                options.walk.ordinal())) {
            tell("this JVM has no JVMTI; the program runs on without the agent");
            return;
        }
        PcStreamHook.memo = options.memo > 1;
        installed = true;

        WriteTransformer transformer = new WriteTransformer(Installer::tell);
        instrumentation.addTransformer(transformer, true);
        List<Class<?>> classes = new ArrayList<>();
        for (String name : WriteTransformer.CLASSES) {
            try {
                // Loaded, not initialised: that is the program's business.
                classes.add(Class.forName(name.replace('/', '.'), false, null));
            } catch (ClassNotFoundException problem) {
                tell(
                        "this JDK has no class "
                                + name.replace('/', '.')
                                + "; its writes carry no Java path");
            }
        }
        for (Class<?> loaded : instrumentation.getAllLoadedClasses()) {
            if (WriteTransformer.isTask(loaded.getName().replace('.', '/'))) {
                classes.add(loaded);
            }
        }
        for (Class<?> one : classes) {
            try {
                instrumentation.retransformClasses(one);
            } catch (Throwable problem) {
                tell(
                        "cannot instrument "
                                + one.getName()
                                + " ("
                                + problem
                                + "); its writes carry no Java path");
            }
        }
    }

    /**
     * Loads the library from a copy in a directory that nobody else can enter, which is removed at
     * once.
     */
    private static void load(JarFile jar) throws IOException {
        Path directory = Files.createTempDirectory("pcstream");
        Path file = directory.resolve(LIBRARY);
        try {
            try (InputStream in = jar.getInputStream(jar.getEntry(LIBRARY))) {
                Files.copy(in, file);
            }
            System.load(file.toAbsolutePath().toString());
        } finally {
            Files.deleteIfExists(file);
            Files.deleteIfExists(directory);
        }
    }

    private static void tell(String line) {
        System.err.println("pcstream: " + line);
    }
}
