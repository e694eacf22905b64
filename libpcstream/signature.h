/* SPDX-License-Identifier: MIT OR Apache-2.0 OR GPL-2.0-only */
/*
 * The hash that names contexts and modules: one multiply and one shift per 64-bit word, order
 * sensitive. It is used for keys inside the kernel and, over build ids in place of module keys,
 * for the signatures of a trace; the Rust twin is crates/pcstream-capture/src/signature.rs. Includers define u64.
 */
#ifndef PCSTREAM_SIGNATURE_H
#define PCSTREAM_SIGNATURE_H

#define SIGNATURE_SEED 0x243f6a8885a308d3ULL   /* digits of pi */
#define SIGNATURE_FACTOR 0x9e3779b97f4a7c15ULL /* 2^64 divided by the golden ratio, odd */

static inline __attribute__((always_inline)) u64 signature_mix(u64 hash, u64 word)
{
	hash = (hash ^ word) * SIGNATURE_FACTOR;
	return hash ^ (hash >> 32);
}

#endif
