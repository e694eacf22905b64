/* SPDX-License-Identifier: MIT OR Apache-2.0 OR GPL-2.0-only */
/* Names of classes that do not depend on the run; see class_name.c. */
#ifndef PCSTREAM_CLASS_NAME_H
#define PCSTREAM_CLASS_NAME_H

/*
 * Turns a JVM type signature ("Lorg/example/Main$$Lambda$14.0x0000000800c03000;") in place into a
 * name with dots that is the same in every run ("org.example.Main$$Lambda"). Returns the name,
 * which begins inside the signature.
 */
char *pcstream_class_name(char *signature);

/* Whether frames of the class are left out of paths: the JDK's own and the agent's. */
int pcstream_class_is_jdk(const char *name);

#endif
