/* SPDX-License-Identifier: MIT OR Apache-2.0 OR GPL-2.0-only */
/* Does what the Java agent does, in C: tells the paths of its writes, and tells much that is wrong. A file for each. */
#define _GNU_SOURCE
#include <fcntl.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>
typedef unsigned long long u64;
#include "signature.h"
#include "pcstream_runtime.h"
#define PAGES 20
static __thread struct pcstream_slot slot;
static int nameless;
static char page[4096] __attribute__((aligned(4096)));
static u64 of_bytes(const char *text)
{
	size_t length = strlen(text);
	u64 hash = signature_mix(SIGNATURE_SEED, length);
	for (size_t i = 0; i < length; i += 8) {
		u64 word = 0;
		memcpy(&word, text + i, length - i < 8 ? length - i : 8);
		hash = signature_mix(hash, word);
	}
	return hash;
}
/* Paths of two frames: a method, and Main.main. */
static struct pcstream_path *path(const char *method, long index)
{
	struct pcstream_path *path = calloc(1, 4200);
	path->signature =
		signature_mix(signature_mix(signature_mix(SIGNATURE_SEED, of_bytes("org.db.Store")), of_bytes(method)), index);
	path->signature = signature_mix(signature_mix(signature_mix(path->signature, of_bytes("Main")), of_bytes("main")), -1);
	strcat(strcat(path->text, "org.db.Store\t"), method);
	strcat(path->text, index == 7 ? "\t7\n" : "\t9\n");
	strcat(path->text, "Main\tmain\t-1\n");
	path->bytes = strlen(path->text);
	path->frames = 2;
	return path;
}
static void enter(const struct pcstream_path *path)
{
	prctl(PCSTREAM_THREAD_SLOT, &slot, 0, 0, 0);
	slot.path = nameless ? 0 : path;
	slot.signature = nameless ? 99 : path->signature;
}
static void leave(void)
{
	slot.signature = 0;
	slot.path = 0;
}
static void file(const char *name, int flags, const struct pcstream_path *as, const struct pcstream_path *other)
{
	int fd = open(name, O_CREAT | O_WRONLY | flags, 0600);
	for (int i = 0; i < PAGES; i++) {
		const struct pcstream_path *path = i % 2 && other ? other : as;
		if (path)
			enter(path);
		if (pwrite(fd, page, 4096, 4096L * i) != 4096)
			exit(2);
		leave();
	}
	close(fd);
}
static void *thread(void *as)
{
	file("thread", 0, as, 0);
	return 0;
}
static void *silent(void *unused)
{
	file("silent", 0, 0, 0);
	return unused;
}
int main(void)
{
	struct pcstream_path *flush = path("flush", 7), *compact = path("compact", 9), *forged = path("forged", 7), *broken;
	pthread_t other;
	file("flush", 0, flush, 0);
	file("both", 0, flush, compact);
	file("direct", O_DIRECT, compact, 0);
	file("nothing", 0, 0, 0);
	strcpy(forged->text, "org.db.Store\tstolen\t7\nMain\tmain\t-1\n");
	file("forged", 0, forged, 0);
	broken = mmap(0, 4096, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	broken = (void *)((char *)broken + 4096 - sizeof(*broken));
	broken->signature = 77;
	broken->bytes = 1 << 30;
	file("broken", 0, broken, 0);
	nameless = 1;
	file("nameless", 0, flush, 0);
	nameless = 0;
	pthread_create(&other, 0, thread, compact);
	pthread_join(other, 0);
	enter(flush);
	pthread_create(&other, 0, silent, 0);
	pthread_join(other, 0);
	if (fork() == 0) {
		file("child", 0, 0, 0);
		_exit(0);
	}
	wait(0);
	leave();
	int fd = open("mapped", O_CREAT | O_RDWR, 0600);
	if (ftruncate(fd, PAGES * 4096))
		return 3;
	char *map = mmap(0, PAGES * 4096, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
	prctl(PCSTREAM_MAPPED, map, PAGES * 4096, compact, 0);
	/* What a thread does otherwise does not matter to a store. */
	enter(flush);
	for (int i = 0; i < PAGES; i++)
		map[4096 * i] = 1;
	leave();
	/* Whatever is registered must do no harm. */
	prctl(PCSTREAM_THREAD_SLOT, 8, 0, 0, 0);
	file("unreadable", 0, 0, 0);
	prctl(PCSTREAM_THREAD_SLOT, -8L, 0, 0, 0);
	prctl(PCSTREAM_MAPPED, 4096, 1UL << 60, 12, 0);
	prctl(PCSTREAM_MAPPED, map, 1, page, 0);
	file("kernel_address", 0, 0, 0);
	return 0;
}
