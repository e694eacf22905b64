// SPDX-License-Identifier: MIT OR Apache-2.0
package org.pcstream.agent;

import java.util.Locale;

/** What follows the jar's name: depth=N,memo=N,threads,verbose,walk=WAY. */
final class Options {
    /** How stacks are walked; the native library counts on this order. */
    enum Walk {
        JVMTI,
        QUICK,
        BOTH;

        /**
         * Quick, but for JVMs whose quick walk reads a list of the JVM's that garbage collection
         * may change meanwhile when it unloads classes (JDK-8275704, mended in 18 and 17.0.7).
         */
        static Walk usual(Runtime.Version version) {
            boolean safe =
                    version.feature() >= 18 || version.feature() == 17 && version.update() >= 7;
            return safe ? QUICK : JVMTI;
        }
    }

    /** Frames that make a path. */
    int depth = 5;

    /** Every how many writes to one stream the path is looked up. */
    int memo = 1;

    /** What the thread is for, by its name, ends a path. */
    boolean threads;

    /** New paths on standard error. */
    boolean verbose;

    Walk walk = Walk.usual(Runtime.version());

    /** Throws IllegalArgumentException, whose message names option, value and remedy. */
    static Options parse(String text) {
        Options options = new Options();
        if (text == null || text.isEmpty()) {
            return options;
        }
        for (String option : text.split(",")) {
            int equals = option.indexOf('=');
            String name = equals < 0 ? option : option.substring(0, equals);
            String value = equals < 0 ? null : option.substring(equals + 1);
            switch (name) {
                case "depth":
                    options.depth = number(name, value, 32, "depth=5");
                    break;
                case "memo":
                    options.memo = number(name, value, 1_000_000, "memo=64");
                    break;
                case "threads":
                    options.threads = flag(name, option, value);
                    break;
                case "verbose":
                    options.verbose = flag(name, option, value);
                    break;
                case "walk":
                    options.walk = walk(option, value);
                    break;
                default:
                    throw new IllegalArgumentException(
                            "option "
                                    + option
                                    + ": unknown, known are depth=N, memo=N,"
                                    + " threads, verbose and walk=quick, walk=jvmti or walk=both, separated by commas");
            }
        }
        return options;
    }

    private static Walk walk(String option, String value) {
        for (Walk walk : Walk.values()) {
            if (walk.name().toLowerCase(Locale.ROOT).equals(value)) {
                return walk;
            }
        }
        throw new IllegalArgumentException(
                "option " + option + ": write walk=quick, walk=jvmti or walk=both");
    }

    private static boolean flag(String name, String option, String value) {
        if (value != null) {
            throw new IllegalArgumentException(
                    "option " + option + ": takes no value, write " + name);
        }
        return true;
    }

    private static int number(String name, String value, int most, String example) {
        try {
            int number = Integer.parseInt(value);
            if (number >= 1 && number <= most) {
                return number;
            }
        } catch (NumberFormatException problem) {
            // Reported below.
        }
        throw new IllegalArgumentException(
                "option "
                        + name
                        + (value == null ? "" : "=" + value)
                        + ": must be a number from 1 to "
                        + most
                        + ", for example "
                        + example);
    }
}
