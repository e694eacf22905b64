/* SPDX-License-Identifier: MIT OR Apache-2.0 OR GPL-2.0-only */
/*
 * What a language runtime tells pcstream about the path that writes, where the native stack does not show it.
 *
 * A thread has a slot in its memory. While it writes, the slot holds the signature of the path in the program's own
 * language and the address of that path's names; otherwise 0. The BPF program reads the slot when it needs it, so telling
 * costs two stores. It learns of a slot through a prctl(2) option that no kernel knows: a BPF program sees it at the
 * tracepoint for unknown options, the kernel itself answers EINVAL, a seccomp filter perhaps EPERM or ENOSYS. The caller
 * ignores the answer.
 *
 * Definitions only, no system headers: runtimes (C) and the BPF program include this file. Numbers and layouts are fixed; a
 * change needs new option numbers.
 */
#ifndef PCSTREAM_RUNTIME_H
#define PCSTREAM_RUNTIME_H

/*
 * arg2: address of the calling thread's struct pcstream_slot, aligned to 8 bytes, valid as long as the thread lives; 0 takes
 * the registration back. Repeated about once a second of use, because a capture may begin after the thread did.
 */
#define PCSTREAM_THREAD_SLOT 0x50435331

/*
 * arg2: start of a new shared and writable file mapping (page aligned), arg3: its length in bytes, arg4: address of the struct
 * pcstream_path of the path that made it, to which stores through mappings of that file are ascribed.
 */
#define PCSTREAM_MAPPED 0x50435333

#define PCSTREAM_PATH_TEXT 4096

/*
 * A path, valid and unchanged as long as the process lives. Its frames, one line each, innermost first:
 *	class name, with dots <TAB> method name <TAB> bytecode index (decimal, -1: native) <LF>
 * Names are modified UTF-8. The signature is that of all frames (see java_signature.c); names are believed only if it is
 * that of the lines.
 */
struct pcstream_path {
	unsigned long long signature;
	unsigned int bytes;  /* of text, whole lines only, at most PCSTREAM_PATH_TEXT */
	unsigned int frames; /* lines in text */
	char text[];
};

/* The path of the write that the thread is in; 0, 0: none known now. */
struct pcstream_slot {
	unsigned long long signature;
	const struct pcstream_path *path; /* 0: its names could not be kept */
};

#endif
