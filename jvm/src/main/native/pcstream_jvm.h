/* SPDX-License-Identifier: MIT OR Apache-2.0 OR GPL-2.0-only */
/*
 * What a language runtime tells pcstream about the path that writes, through prctl(2) options
 * that no kernel knows: a BPF program sees them at the tracepoint for unknown options, the kernel
 * itself answers EINVAL, a seccomp filter perhaps EPERM or ENOSYS. The caller ignores the answer.
 *
 * Definitions only, no system headers: both the agent (C) and the BPF programs include this file.
 * Numbers and layouts are fixed; a change needs new option numbers.
 */
#ifndef PCSTREAM_JVM_H
#define PCSTREAM_JVM_H

/*
 * arg2: address of the calling thread's struct pcstream_slot, aligned to 8 bytes, valid as long as
 * the thread lives; 0 takes the registration back. Repeated about once a second of use, because a
 * capture may begin after the thread did.
 */
#define PCSTREAM_THREAD_SLOT 0x50435331

/* arg2: address of a struct pcstream_path: what a signature stands for. Repeated likewise. */
#define PCSTREAM_PATH 0x50435332

/*
 * arg2: start of a new shared and writable file mapping (page aligned), arg3: its length in bytes,
 * arg4: signature of the path that made it, to which stores through the mapping are ascribed.
 */
#define PCSTREAM_MAPPED 0x50435333

/* Path of the write that the thread is in; 0: none known now. */
struct pcstream_slot {
	unsigned long long signature;
};

#define PCSTREAM_PATH_TEXT 4096

/*
 * Frames of a path, one line each, innermost first:
 *	class name, with dots <TAB> method name <TAB> bytecode index (decimal, -1: native) <LF>
 * Names are modified UTF-8. Lines that no longer fit are left out, though they are in the signature.
 */
struct pcstream_path {
	unsigned long long signature;
	unsigned int bytes; /* of text, whole lines only */
	unsigned int frames; /* lines in text */
	char text[PCSTREAM_PATH_TEXT];
};

#endif
