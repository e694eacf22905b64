/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * An ordinary program that knows nothing of streams: two call paths write two files, 4 and 12 MiB a round, the second in one of
 * so many rounds.
 * Usage: two_paths DIRECTORY [ROUNDS [SO-MANY]]; two_paths --verify DIRECTORY. Every page holds the file's letter and its number.
 */
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define PIECE 65536
#define PAGE 4096
#define LOG_PIECES 64
#define TABLE_PIECES 192

static char piece[PIECE], read_back[PIECE];

static void fill(char letter, unsigned long number)
{
	memset(piece, letter, PIECE);
	for (int page = 0; page < PIECE / PAGE; page++)
		memcpy(piece + page * PAGE, &(unsigned long){ number * (PIECE / PAGE) + page }, sizeof(number));
}

__attribute__((noinline)) static int put(int fd, char letter, int pieces)
{
	for (int i = 0; i < pieces; i++) {
		fill(letter, i);
		if (pwrite(fd, piece, PIECE, (off_t)i * PIECE) != PIECE)
			return 1;
	}
	return fsync(fd);
}

/* The statement after the call keeps it from becoming a jump, which would hide the caller. */
__attribute__((noinline)) int append_to_log(int fd)
{
	int failed = put(fd, 'l', LOG_PIECES);

	__asm__ volatile("" ::: "memory");
	return failed;
}

__attribute__((noinline)) int flush_table(int fd)
{
	int failed = put(fd, 't', TABLE_PIECES);

	__asm__ volatile("" ::: "memory");
	return failed;
}

static int open_in(const char *directory, const char *name)
{
	char path[4096];
	int fd;

	snprintf(path, sizeof(path), "%s/%s", directory, name);
	fd = open(path, O_CREAT | O_RDWR, 0644);
	if (fd < 0) {
		perror(path);
		exit(1);
	}
	return fd;
}

static int differs(int fd, char letter, int pieces)
{
	for (int i = 0; i < pieces; i++) {
		fill(letter, i);
		if (pread(fd, read_back, PIECE, (off_t)i * PIECE) != PIECE || memcmp(piece, read_back, PIECE))
			return 1;
	}
	return 0;
}

int main(int count, char **arguments)
{
	int verify = count > 2 && !strcmp(arguments[1], "--verify");
	const char *directory = count > 1 ? arguments[1 + verify] : ".";
	int rounds = count > 2 && !verify ? atoi(arguments[2]) : 1;
	int every = count > 3 && atoi(arguments[3]) > 0 ? atoi(arguments[3]) : 1;
	int log = open_in(directory, "log"), table = open_in(directory, "table");

	if (verify)
		return differs(log, 'l', LOG_PIECES) | differs(table, 't', TABLE_PIECES);
	for (int i = 0; i < rounds; i++)
		if (append_to_log(log) || (i % every == 0 && flush_table(table)))
			return 1;
	return 0;
}
