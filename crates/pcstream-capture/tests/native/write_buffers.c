/* A pool whose pages are changed by some functions and written by one: see tests/write_buffers_root.rs. */
#define _GNU_SOURCE
#include <fcntl.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/uio.h>
#include <unistd.h>
#ifdef LIBRARY
void pcstream_page_dirty(const void *page, size_t bytes);
#else
#include "pcstream.h"
#endif
#define PART __attribute__((noinline, noclone))
#define BARRIER __asm__ volatile("" ::: "memory")
#define PAGES 40
#define PAGE 8192
char *pool;
struct block {
	long number;
	char *frame;
} blocks[PAGES];
struct handle {
	struct block *block;
} handles[PAGES];
static int orders[2], answers[2];
PART void mark_number(int number, int unused)
{
	(void)number;
	(void)unused;
	BARRIER;
}

PART void hint_number(int number)
{
	(void)number;
	BARRIER;
}

PART void mark_block(int unused, struct handle *handle)
{
	(void)unused;
	(void)handle;
	BARRIER;
}

struct usage {
	long read, dirtied;
} usage;
struct descriptor {
	long tag[3];
	int state;
} all[PAGES], *descriptors = all;
int costs, balance, cost;
PART void mark_local(int number)
{
	(void)number;
	BARRIER;
}

PART void mark_counted(int number)
{
	if (number < 0) {
		mark_local(number);
		return;
	}
	struct descriptor *of = &descriptors[number - 1];
	int before = __atomic_load_n(&of->state, __ATOMIC_RELAXED);
	while (!__atomic_compare_exchange_n(&of->state, &before, before | 1, 0, __ATOMIC_SEQ_CST, __ATOMIC_SEQ_CST))
		usleep(1);
	if (!(before & 1)) {
		usage.dirtied++;
		if (costs)
			balance += cost;
	}
}

PART void copied(char *page)
{
	(void)page;
	BARRIER;
}

static inline __attribute__((always_inline)) void dirty(int n, char *page)
{
	/* Rules for call paths are asked for and answered meanwhile. */
	usleep(1000);
#if defined NUMBERED
	mark_number(n + 1, 7);
#elif defined COUNTED
	mark_counted(n + 1);
#elif defined POINTED
	mark_block(7, &handles[n]);
#else
	pcstream_page_dirty(page, PAGE);
#endif
	(void)n;
	(void)page;
}

PART void insert_row(int n)
{
	char *page = pool + (long)n * PAGE;
	memset(page, n + 1, PAGE);
	dirty(n, page);
	BARRIER;
}

PART void update_row(int n)
{
	char *page = pool + (long)n * PAGE;
	memset(page, n + 2, PAGE);
	dirty(n, page);
	BARRIER;
}

PART void set_hint(int n)
{
	hint_number(n + 1);
	BARRIER;
}

PART void write_file(const char *name, char *base)
{
	int flags = O_CREAT | O_RDWR;
#ifdef DIRECT
	flags |= O_DIRECT;
#endif
	int fd = open(name, flags, 0600);
	static char copy[PAGE] __attribute__((aligned(4096)));
	for (int n = 0; n < PAGES; n++) {
		char *data = base + (long)n * PAGE;
#ifdef COPIED
#ifndef LIBRARY
		pcstream_page_copied(data);
#endif
		copied(data);
		memcpy(copy, data, PAGE);
		data = copy;
#endif
		(void)copy;
		descriptors[n].state = 0;
#if defined VECTORS
		struct iovec part = { data, PAGE };
		if (pwritev(fd, &part, 1, (long)n * PAGE) != PAGE)
			exit(2);
#elif defined APPENDED
		if (write(fd, data, PAGE) != PAGE)
			exit(2);
#else
		if (pwrite(fd, data, PAGE, (long)n * PAGE) != PAGE)
			exit(2);
#endif
	}
	close(fd);
}

PART void writer(char *base)
{
	char name[16];
	while (read(orders[0], name, sizeof name) == sizeof name && name[0]) {
		write_file(name, base);
		BARRIER;
		if (write(answers[1], "x", 1) != 1)
			exit(3);
	}
	BARRIER;
}

static void *thread(void *base)
{
	writer(base);
	BARRIER;
	return base;
}

static void flush(const char *file)
{
	char name[16] = "", answer;
	strcpy(name, file);
	if (write(orders[1], name, sizeof name) != sizeof name || (*name && read(answers[0], &answer, 1) != 1))
		exit(4);
}

int main(void)
{
	int memory = memfd_create("pool", 0);
	if (ftruncate(memory, PAGES * PAGE) || pipe(orders) || pipe(answers))
		return 1;
	pool = mmap(0, PAGES * PAGE, PROT_READ | PROT_WRITE, POOL, POOL & MAP_ANONYMOUS ? -1 : memory, 0);
	for (int n = 0; n < PAGES; n++) {
		blocks[n].frame = pool + (long)n * PAGE;
		handles[n].block = &blocks[n];
	}
#ifdef PROCESS
	if (fork() == 0) {
		char *base = mmap(0, PAGES * PAGE, PROT_READ | PROT_WRITE, MAP_SHARED, memory, 0);
		if (base == pool)
			return 5;
		writer(base);
		return 0;
	}
#else
	pthread_t other;
	pthread_create(&other, 0, thread, pool);
#endif
	for (int n = 0; n < PAGES; n++)
		insert_row(n);
	flush("insert");
	for (int n = 0; n < PAGES; n++)
		update_row(n);
	flush("update");
	flush("again");
	for (int n = 0; n < PAGES; n++)
		insert_row(n);
	usleep(150000);
	for (int n = 0; n < PAGES; n++)
		update_row(n);
	flush("later");
#ifdef HINTED
	for (int n = 0; n < PAGES; n++) {
		update_row(n);
		set_hint(n);
	}
	flush("hinted");
	for (int n = 0; n < PAGES; n++)
		set_hint(n);
	flush("hints");
#endif
	flush("");
#ifndef PROCESS
	pthread_join(other, 0);
#endif
	return 0;
}
