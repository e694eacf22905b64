/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * Writes 1 to 64 pages at random places of a file of 64 MiB, again and again, with fsync now and then; then compares every
 * page with what was written last. Usage: random_writes write|direct|verify FILE. `verify` compares only: the sequence is
 * the same each time.
 */
#define _GNU_SOURCE
#include <fcntl.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define PAGE 4096
#define PAGES 16384
#define MOST 64
#define WRITES 1024

static uint32_t written_by[PAGES];
static char *buffer;

static uint64_t next_random(void)
{
	static uint64_t state = 88172645463325252ull;

	state ^= state << 13;
	state ^= state >> 7;
	state ^= state << 17;
	return state;
}

/* Every word of a page tells the page and the write. */
static void fill(char *at, uint64_t page, uint64_t write)
{
	for (uint64_t i = 0; i < PAGE / 8; i++)
		((uint64_t *)at)[i] = (page << 32 | write) * 0x9e3779b97f4a7c15ull + i;
}

/* With `fd` < 0 it only computes what the file holds. */
static int write_all(int fd)
{
	for (uint32_t write = 1; write <= WRITES; write++) {
		uint64_t pages = 1 + next_random() % MOST, first = next_random() % (PAGES - pages);

		for (uint64_t i = 0; i < pages; i++) {
			written_by[first + i] = write;
			fill(buffer + i * PAGE, first + i, write);
		}
		if (fd >= 0 && pwrite(fd, buffer, pages * PAGE, first * PAGE) != (ssize_t)(pages * PAGE))
			return 1;
		if (fd >= 0 && write % 64 == 0 && fsync(fd))
			return 1;
	}
	return fd >= 0 ? fsync(fd) : 0;
}

static int compare(int fd)
{
	char *expected = buffer + PAGE;

	for (uint64_t page = 0; page < PAGES; page++) {
		if (!written_by[page])
			continue;
		fill(expected, page, written_by[page]);
		if (pread(fd, buffer, PAGE, page * PAGE) != PAGE || memcmp(buffer, expected, PAGE)) {
			fprintf(stderr, "page %llu differs\n", (unsigned long long)page);
			return 1;
		}
	}
	return 0;
}

int main(int count, char **arguments)
{
	const char *how = count == 3 ? arguments[1] : "";
	int direct = !strcmp(how, "direct"), verify = !strcmp(how, "verify"), fd;

	if (!direct && !verify && strcmp(how, "write"))
		return 2;
	fd = open(arguments[2], O_CREAT | O_RDWR | (direct ? O_DIRECT : 0), 0644);
	if (fd < 0 || posix_memalign((void **)&buffer, PAGE, MOST * PAGE)) {
		perror(arguments[2]);
		return 1;
	}
	return write_all(verify ? -1 : fd) || compare(fd);
}
