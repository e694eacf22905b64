/* SPDX-License-Identifier: MIT OR Apache-2.0 OR GPL-2.0-only */
/*
 * Signature of a Java path: an ordered hash over (class name, method name, bytecode index) of its
 * frames. Nothing in it depends on addresses, on the state of the JIT compiler or on the run.
 *
 * The hash is that of libpcstream/signature.h. Invariant: the values
 * are fixed for ever, a change makes all recorded signatures foreign (see signature_test.c).
 */
#ifndef PCSTREAM_JAVA_SIGNATURE_H
#define PCSTREAM_JAVA_SIGNATURE_H

#include <stddef.h>

typedef unsigned long long u64;
#include "signature.h"

struct pcstream_java_frame {
	const char *class_name; /* with dots, modified UTF-8 */
	const char *method;
	long long bytecode_index; /* -1: a native method */
};

/* Hash of bytes: their number, then little-endian words of eight, the last padded with zeros. */
u64 pcstream_bytes_hash(const char *bytes, size_t length);

/* Signature of n frames, innermost first. Never 0. */
u64 pcstream_java_signature(const struct pcstream_java_frame *frames, size_t n);

/* One step of it, for callers that keep the hashes of names; start with SIGNATURE_SEED. */
static inline u64 pcstream_java_frame_mix(u64 hash, u64 class_hash, u64 method_hash, long long bytecode_index)
{
	hash = signature_mix(hash, class_hash);
	hash = signature_mix(hash, method_hash);
	return signature_mix(hash, (u64)bytecode_index);
}

/* The last step: 0 stands for "no path" and is given to none. */
static inline u64 pcstream_java_signature_end(u64 hash)
{
	return hash ? hash : 1;
}

#endif
