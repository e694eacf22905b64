/* SPDX-License-Identifier: MIT OR Apache-2.0 OR GPL-2.0-only */
/*
 * pcstream.h: tells pcstream which code makes the pages of a write buffer dirty.
 *
 * A program that writes through a buffer of its own (a database's buffer pool) hides why a page is written: the thread that
 * writes it, much later, is the same for all. With these two calls, the page is written under the call path that made it dirty:
 *
 *	pcstream_page_dirty(page, 8192);	 after a change, wherever pages are marked dirty
 *	...
 *	pwrite(fd, page, 8192, offset);		 by any thread, or by any process that shares the memory
 *
 * A write whose data lies at a page's address is found by itself. Where the page is written from a copy (checksums,
 * encryption), the thread says so right before:
 *
 *	pcstream_page_copied(page);
 *	pwrite(fd, copy, 8192, offset);
 *
 * Both are one instruction that does nothing (and the loading of two registers) while nobody listens, and a static probe
 * (a note in the ELF file, as sys/sdt.h of systemtap makes them) for whoever does:
 *
 *	pcstream run --write-buffers ./program -- ./program ...
 *
 * Include this header; there is nothing to link. Languages that call C use libpcstream.so, which has both as functions;
 * then name that file instead of the program. Linux on x86-64, GCC or Clang, C or C++; elsewhere both calls are nothing.
 *
 * Rules: a page is known by its address, so call with the address that is written from. The kept path answers for one
 * write after each pcstream_page_dirty: what is written again without having been dirtied again has the path of that write.
 */
#ifndef PCSTREAM_WRITE_BUFFER_H
#define PCSTREAM_WRITE_BUFFER_H

#include <stddef.h>

#if defined(__x86_64__) && defined(__linux__) && defined(__GNUC__)

/* One byte that does nothing. Not the five that Linux 6.18 can turn into a call: that writes below the stack pointer, where
 * functions that call nothing keep variables. */
#define PCSTREAM_PROBE_TEXT(name, arguments) \
	"990: nop\n" \
	".pushsection .note.stapsdt,\"?\",\"note\"\n" \
	".balign 4\n" \
	".4byte 992f-991f, 994f-993f, 3\n" \
	"991: .asciz \"stapsdt\"\n" \
	"992: .balign 4\n" \
	"993: .8byte 990b\n" \
	".8byte _.stapsdt.base\n" \
	".8byte 0\n" \
	".asciz \"pcstream\"\n" \
	".asciz \"" name "\"\n" \
	".asciz \"" arguments "\"\n" \
	"994: .balign 4\n" \
	".popsection\n" \
	".ifndef _.stapsdt.base\n" \
	".pushsection .stapsdt.base,\"aG\",\"progbits\",.stapsdt.base,comdat\n" \
	".weak _.stapsdt.base\n" \
	".hidden _.stapsdt.base\n" \
	"_.stapsdt.base: .space 1\n" \
	".size _.stapsdt.base, 1\n" \
	".popsection\n" \
	".endif\n"

/* The `bytes` (512 to 1 MiB) at `page` were changed and will be written. Pages in private memory have one size in a process,
 * those in shared memory one in a mapping. */
static inline __attribute__((always_inline)) void pcstream_page_dirty(const void *page, size_t bytes)
{
	__asm__ volatile(PCSTREAM_PROBE_TEXT("page_dirty", "8@%%rdi 8@%%rsi") : : "D"(page), "S"(bytes) : "memory");
}

/* The next write of this thread is a copy of `page`. */
static inline __attribute__((always_inline)) void pcstream_page_copied(const void *page)
{
	__asm__ volatile(PCSTREAM_PROBE_TEXT("page_copied", "8@%%rdi") : : "D"(page) : "memory");
}

#else

static inline void pcstream_page_dirty(const void *page, size_t bytes)
{
	(void)page;
	(void)bytes;
}

static inline void pcstream_page_copied(const void *page)
{
	(void)page;
}

#endif
#endif
