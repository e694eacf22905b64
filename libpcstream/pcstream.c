/* SPDX-License-Identifier: MIT OR Apache-2.0 OR GPL-2.0-only */
/*
 * libpcstream.so: the calls of pcstream.h as functions, for languages that call C (make it with `make libpcstream`), and
 * pcstream_stream, which has to be linked: this file may just as well be compiled into the program.
 *
 * How an answer comes: who listens is counted by the kernel in `pcstream_stream_listeners`. Only if somebody does, the table of
 * answers (answers.h) is asked for at the socket that `pcstream place` has for the device, and mapped. A call makes up a ticket and
 * stops at the probe, where the BPF program writes the answer into the table. A table that does not answer is asked for once more,
 * and more and more rarely: its place has ended, or whoever listens is no place.
 *
 * Invariants: nothing is waited for, nothing can fail, errno stays. A table that is mapped stays mapped, because another thread may
 * be reading: its successor takes its place.
 */
#define _GNU_SOURCE

#define pcstream_page_dirty pcstream_page_dirty_inline
#define pcstream_page_copied pcstream_page_copied_inline
#include "pcstream.h"
#undef pcstream_page_dirty
#undef pcstream_page_copied

#define PCSTREAM_EXPORTED __attribute__((visibility("default")))

PCSTREAM_EXPORTED void pcstream_page_dirty(const void *page, size_t bytes)
{
	pcstream_page_dirty_inline(page, bytes);
}

PCSTREAM_EXPORTED void pcstream_page_copied(const void *page)
{
	pcstream_page_copied_inline(page);
}

#if defined(__x86_64__) && defined(__linux__) && defined(__GNUC__)

#include <errno.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <sys/un.h>
#include <unistd.h>

#include "answers.h"

/* Devices that a process has tables for. */
#define MAX_TABLES 16
/* Calls between two tries for a table, at most. */
#define MAX_PAUSE 65536
#define TABLE_BYTES (PCSTREAM_ANSWERS * sizeof(uint64_t))

/* Who listens to the probe below. In a section that the file has, where the kernel looks for it. */
__attribute__((section(".probes"), visibility("hidden"), used)) volatile unsigned short pcstream_stream_listeners = 0;

struct table {
	uint64_t device;		  /* 0: the entry is free */
	const volatile uint64_t *answers; /* NULL: not there yet */
	int waits_at;			  /* the socket at which the table will come, plus one; 0: none */
	ino_t socket;			  /* its inode: the program may have closed it, and have another file there */
	unsigned pause, paused;		  /* calls between two tries, and since the last */
};

static struct table tables[MAX_TABLES];
/* One thread looks for a table at a time, and the others go on without. The id of its process: after a fork nobody looks in the child. */
static pid_t looking;

static struct table *table_of(uint64_t device)
{
	for (int i = 0; i < MAX_TABLES; i++) {
		uint64_t known = 0;

		if (__atomic_compare_exchange_n(&tables[i].device, &known, device, 0, __ATOMIC_ACQ_REL, __ATOMIC_ACQUIRE) ||
		    known == device)
			return &tables[i];
	}
	return NULL;
}

/* The inode of a socket; 0: it is none, or not open. */
static ino_t socket_at(int at)
{
	struct stat about;

	return !fstat(at, &about) && S_ISSOCK(about.st_mode) ? about.st_ino : 0;
}

/* The socket of a device's place, plus one; 0: there is none, or no more now. */
static int connected(uint64_t device)
{
	struct sockaddr_un to = { .sun_family = AF_UNIX };
	int at = socket(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);

	if (at < 0)
		return 0;
	snprintf(to.sun_path, sizeof to.sun_path, "/run/pcstream/place-%u-%u.sock", major(device), minor(device));
	if (connect(at, (struct sockaddr *)&to, sizeof to)) {
		close(at);
		return 0;
	}
	return at + 1;
}

/* The descriptor that was sent; -1 and errno: none yet (EAGAIN), or never. */
static int received(int at)
{
	union {
		struct cmsghdr header;
		char bytes[CMSG_SPACE(sizeof(int))];
	} control;
	char byte;
	struct iovec data = { &byte, 1 };
	struct msghdr message = { .msg_iov = &data, .msg_iovlen = 1, .msg_control = &control, .msg_controllen = sizeof control };
	ssize_t bytes = recvmsg(at, &message, MSG_DONTWAIT | MSG_CMSG_CLOEXEC);
	struct cmsghdr *header = bytes == 1 ? CMSG_FIRSTHDR(&message) : NULL;
	int descriptor;

	if (bytes >= 0)
		errno = ECONNRESET;
	if (!header || header->cmsg_level != SOL_SOCKET || header->cmsg_type != SCM_RIGHTS ||
	    header->cmsg_len != CMSG_LEN(sizeof(int)))
		return -1;
	memcpy(&descriptor, CMSG_DATA(header), sizeof descriptor);
	return descriptor;
}

/*
 * A table that was sent. It takes the place of `before`, if there is one, only when it is there itself: a mapping that fails over
 * another may already have taken that away.
 */
static void *map_table(int descriptor, void *before)
{
	void *mapped = mmap(NULL, TABLE_BYTES, PROT_READ, MAP_SHARED, descriptor, 0);
	void *moved;

	if (mapped == MAP_FAILED || !before)
		return mapped;
	moved = mremap(mapped, TABLE_BYTES, TABLE_BYTES, MREMAP_MAYMOVE | MREMAP_FIXED, before);
	if (moved == MAP_FAILED)
		munmap(mapped, TABLE_BYTES);
	return moved;
}

/* One try. False: it is worth another one at the next call. */
static int look_now(struct table *table)
{
	int descriptor;
	void *mapped;

	if (!table->waits_at || socket_at(table->waits_at - 1) != table->socket) {
		table->waits_at = connected(table->device);
		table->socket = table->waits_at ? socket_at(table->waits_at - 1) : 0;
	}
	if (!table->waits_at)
		return 1;
	descriptor = received(table->waits_at - 1);
	if (descriptor < 0 && (errno == EAGAIN || errno == EINTR))
		return 0;
	close(table->waits_at - 1);
	table->waits_at = 0;
	if (descriptor < 0)
		return 1;
	mapped = map_table(descriptor, (void *)table->answers);
	close(descriptor);
	if (mapped != MAP_FAILED)
		__atomic_store_n(&table->answers, (const volatile uint64_t *)mapped, __ATOMIC_RELEASE);
	return 1;
}

static void look_for(struct table *table)
{
	pid_t own, looks;

	if (__atomic_add_fetch(&table->paused, 1, __ATOMIC_RELAXED) <= __atomic_load_n(&table->pause, __ATOMIC_RELAXED))
		return;
	own = getpid();
	looks = __atomic_load_n(&looking, __ATOMIC_RELAXED);
	if (looks == own || !__atomic_compare_exchange_n(&looking, &looks, own, 0, __ATOMIC_ACQUIRE, __ATOMIC_RELAXED))
		return;
	if (look_now(table)) {
		unsigned pause = __atomic_load_n(&table->pause, __ATOMIC_RELAXED);

		__atomic_store_n(&table->paused, 0, __ATOMIC_RELAXED);
		__atomic_store_n(&table->pause, pause < MAX_PAUSE ? 2 * pause + 1 : pause, __ATOMIC_RELAXED);
	}
	__atomic_store_n(&looking, 0, __ATOMIC_RELEASE);
}

/* A number that no other call has, with an empty lowest byte: the time, of this stack, mixed. */
static uint64_t fresh_ticket(void)
{
	uint64_t number = __builtin_ia32_rdtsc();

	number ^= (uint64_t)(uintptr_t)&number * 0x9e3779b97f4a7c15ULL;
	number = (number ^ number >> 30) * 0xbf58476d1ce4e5b9ULL;
	number = (number ^ number >> 27) * 0x94d049bb133111ebULL;
	return ((number ^ number >> 31) & ~0xffULL) ?: 0x100;
}

static __attribute__((noinline)) unsigned asked(int fd, const void *data, size_t bytes)
{
	const volatile uint64_t *answers = NULL;
	struct table *table = NULL;
	uint64_t ticket = 0, answer;
	int error = errno;
	struct stat about;

	if (!fstat(fd, &about) && S_ISBLK(about.st_mode))
		table = table_of(about.st_rdev);
	if (table)
		answers = __atomic_load_n(&table->answers, __ATOMIC_ACQUIRE);
	if (answers)
		ticket = fresh_ticket();
	__asm__ volatile(PCSTREAM_COUNTED_PROBE_TEXT("stream", "pcstream_stream_listeners", "8@%%rdi 8@%%rsi 8@%%rdx 8@%%rcx")
			 :
			 : "D"(data), "S"(bytes), "d"((long)fd), "c"(ticket)
			 : "memory");
	answer = answers ? answers[ticket >> PCSTREAM_ANSWER_SHIFT] : 0;
	if (answers && (answer ^ ticket) <= 0xff) {
		if (__atomic_load_n(&table->pause, __ATOMIC_RELAXED))
			__atomic_store_n(&table->pause, 0, __ATOMIC_RELAXED);
		return answer & 0xff;
	}
	if (table)
		look_for(table);
	errno = error;
	return 0;
}

PCSTREAM_EXPORTED unsigned pcstream_stream(int fd, const void *data, size_t bytes)
{
	return pcstream_stream_listeners ? asked(fd, data, bytes) : 0;
}

#else

PCSTREAM_EXPORTED unsigned pcstream_stream(int fd, const void *data, size_t bytes)
{
	(void)fd;
	(void)data;
	(void)bytes;
	return 0;
}

#endif
