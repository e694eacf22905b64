// SPDX-License-Identifier: MIT OR Apache-2.0
package org.pcstream.agent;

import java.io.File;
import java.lang.instrument.Instrumentation;
import java.util.jar.JarFile;

/**
 * Entry of the agent, at start (-javaagent) or later (attach).
 *
 * <p>Idea: classes of java.base can only call what the boot class path has, so this class, which
 * the system class loader loaded, puts the jar there and goes on in {@link Installer}, which comes
 * from there. By its own path, not by Boot-Class-Path, so that the jar may be renamed.
 *
 * <p>Invariant: whatever goes wrong is one line on standard error, and the program runs on.
 */
public final class PcStreamAgent {
    private PcStreamAgent() {}

    public static void premain(String options, Instrumentation instrumentation) {
        start(options, instrumentation);
    }

    public static void agentmain(String options, Instrumentation instrumentation) {
        start(options, instrumentation);
    }

    private static void start(String options, Instrumentation instrumentation) {
        try {
            File file =
                    new File(
                            PcStreamAgent.class
                                    .getProtectionDomain()
                                    .getCodeSource()
                                    .getLocation()
                                    .toURI());
            JarFile jar = new JarFile(file);
            instrumentation.appendToBootstrapClassLoaderSearch(jar);
            Installer.install(options, instrumentation, jar);
        } catch (Throwable problem) {
            System.err.println("pcstream: " + problem + "; the program runs on without the agent");
        }
    }
}
