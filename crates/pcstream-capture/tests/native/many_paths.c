/* SPDX-License-Identifier: MIT OR Apache-2.0 OR GPL-2.0-only */
/*
 * Tells more paths than anybody reads: `many_paths N M` writes a page by each of N paths to the file `written`, and maps M
 * files, each by a path of its own, and stores to them. `many_paths 0 0 K` writes K times by a path whose names cannot be read.
 */
#define _GNU_SOURCE
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <unistd.h>
#include "pcstream_runtime.h"

static struct pcstream_slot slot;
static char page[4096];

static int write_by(int paths)
{
	int fd = open("written", O_CREAT | O_WRONLY, 0600);

	if (fd < 0)
		return 1;
	prctl(PCSTREAM_THREAD_SLOT, &slot, 0, 0, 0);
	for (int i = 0; i < paths; i++) {
		slot.signature = i + 1;
		if (pwrite(fd, page, sizeof(page), i * 4096L) != sizeof(page))
			return 1;
	}
	slot.signature = 0;
	return fsync(fd);
}

static int map_by(int files)
{
	struct pcstream_path *path = calloc(files, sizeof(*path));
	char **at = calloc(files, sizeof(*at)), name[32];

	for (int i = 0; i < files; i++) {
		snprintf(name, sizeof(name), "mapped%d", i);
		int fd = open(name, O_CREAT | O_RDWR, 0600);
		if (fd < 0 || ftruncate(fd, 4096))
			return 1;
		at[i] = mmap(0, 4096, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
		close(fd);
		if (at[i] == MAP_FAILED)
			return 1;
		path[i].signature = 1000000 + i;
		prctl(PCSTREAM_MAPPED, at[i], 4096, &path[i], 0);
	}
	for (int i = 0; i < files; i++)
		at[i][0] = 1;
	return 0;
}

static int write_unread(int times)
{
	int fd = open("unread", O_CREAT | O_WRONLY | O_DIRECT, 0600);
	void *aligned;

	if (fd < 0 || posix_memalign(&aligned, 4096, 4096))
		return 1;
	slot.path = mmap(0, 4096, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	prctl(PCSTREAM_THREAD_SLOT, &slot, 0, 0, 0);
	slot.signature = 7;
	for (int i = 0; i < times; i++)
		if (pwrite(fd, aligned, 4096, 0) != 4096)
			return 1;
	slot.signature = 0;
	return 0;
}

int main(int argc, char **argv)
{
	if (argc == 4)
		return write_unread(atoi(argv[3]));
	return argc != 3 || write_by(atoi(argv[1])) || map_by(atoi(argv[2]));
}
