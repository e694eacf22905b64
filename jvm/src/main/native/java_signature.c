/* SPDX-License-Identifier: MIT OR Apache-2.0 OR GPL-2.0-only */
/* See java_signature.h. Depends on no JVM, so that it can be tested alone. */
#include "java_signature.h"

#include <string.h>

u64 pcstream_bytes_hash(const char *bytes, size_t length)
{
	u64 hash = signature_mix(SIGNATURE_SEED, length);

	for (size_t at = 0; at < length; at += 8) {
		u64 word = 0;

		for (size_t i = 0; i < 8 && at + i < length; i++)
			word |= (u64)(unsigned char)bytes[at + i] << (8 * i);
		hash = signature_mix(hash, word);
	}
	return hash;
}

u64 pcstream_java_signature(const struct pcstream_java_frame *frames, size_t n)
{
	u64 hash = SIGNATURE_SEED;

	for (size_t i = 0; i < n; i++) {
		u64 class_hash = pcstream_bytes_hash(frames[i].class_name, strlen(frames[i].class_name));
		u64 method_hash = pcstream_bytes_hash(frames[i].method, strlen(frames[i].method));

		hash = pcstream_java_frame_mix(hash, class_hash, method_hash, frames[i].bytecode_index);
	}
	return pcstream_java_signature_end(hash);
}
