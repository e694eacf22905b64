/* SPDX-License-Identifier: MIT OR Apache-2.0 OR GPL-2.0-only */
/*
 * pcstream.h: tells pcstream which code makes the pages of a write buffer dirty, and asks it for the stream of a write.
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
 * A program that owns a block device (no file system; O_DIRECT, io_uring) asks for the write stream that the call path of its
 * write earned, and puts it into the request (Linux 6.16 and newer, an SSD with FDP):
 *
 *	unsigned stream = pcstream_stream(fd, data, bytes);	0: none
 *	io_uring_prep_write(sqe, fd, data, bytes, offset);
 *	((unsigned char *)sqe)[44] = stream;			sqe->write_stream
 *
 * The first two are one instruction that does nothing (and the loading of two registers) while nobody listens. All are a static probe
 * (a note in the ELF file, as sys/sdt.h of systemtap makes them) for whoever does:
 *
 *	pcstream run --write-buffers ./program -- ./program ...
 *	pcstream place --on /dev/nvme1n1 --write-buffers ./program
 *
 * Include this header; for pcstream_page_dirty and pcstream_page_copied there is nothing to link. Languages that call C use
 * libpcstream.so, which has all as functions; then name that file instead of the program. Linux on x86-64, GCC or Clang, C or C++;
 * elsewhere the calls are nothing.
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
#define PCSTREAM_PROBE_TEXT(name, arguments) PCSTREAM_COUNTED_PROBE_TEXT(name, "0", arguments)
/* `listeners`: where the kernel counts who listens; 0: it need not. */
#define PCSTREAM_COUNTED_PROBE_TEXT(name, listeners, arguments) \
	"990: nop\n" \
	".pushsection .note.stapsdt,\"?\",\"note\"\n" \
	".balign 4\n" \
	".4byte 992f-991f, 994f-993f, 3\n" \
	"991: .asciz \"stapsdt\"\n" \
	"992: .balign 4\n" \
	"993: .8byte 990b\n" \
	".8byte _.stapsdt.base\n" \
	".8byte " listeners "\n" \
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

#ifdef __cplusplus
extern "C" {
#endif
/*
 * The write stream for the next write of all `bytes` at `data` to the block device that is open as `fd`, by whatever thread: 0 for
 * none, or 2 and more. The path to this call is the context of that write. Without a stream, a write goes where the device puts such.
 *
 * `fd` is a descriptor, not an index of io_uring's registered files. Nothing is waited for, nothing can fail, errno stays: while
 * nobody listens the result is 0, in some nanoseconds. While `pcstream place` listens, a call takes some microseconds.
 * The first calls after it began get 0 until its table is mapped. A dry run (--sink none) on a device without streams says which it
 * would give. The kernel refuses a request with a stream above /sys/block/DEVICE/queue/max_write_streams (EINVAL), and on a partition
 * with any stream, so a program that may run on such a device compares.
 *
 * This one is no static inline function: link libpcstream.so, or compile pcstream.c into the program.
 */
unsigned pcstream_stream(int fd, const void *data, size_t bytes);
#ifdef __cplusplus
}
#endif
#endif
