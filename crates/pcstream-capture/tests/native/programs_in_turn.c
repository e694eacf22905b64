/*
 * One task becomes one program after another, all at the same addresses, and the memory of one is the next but one's.
 * Usage: rest TURNS DIRECTORY alpha beta rest
 * With -DPUT=NAME a program writes 10 pages in its function of that name; without, it writes nothing (rest). Their paths are of one
 * length. Of a multiple of four turns, alpha and beta have a quarter each.
 */
#define _GNU_SOURCE
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/personality.h>
#include <unistd.h>

static char page[4096];
static volatile int done;

#ifdef PUT
__attribute__((noinline)) void PUT(int file)
{
	for (int i = 0; i < 10; i++)
		if (write(file, page, sizeof(page)) != sizeof(page))
			abort();
	done++;
}
#endif

int main(int argc, char **argv)
{
	int turn = argc > 1 ? atoi(argv[1]) : 0;
	char left[8], path[4096];
	int file;

	if (argc != 6)
		return 1;
	snprintf(path, sizeof(path), "%s/file", argv[2]);
	file = open(path, O_WRONLY | O_CREAT | O_APPEND, 0644);
	if (file < 0 || personality(ADDR_NO_RANDOMIZE) < 0)
		return 1;
#ifdef PUT
	PUT(file);
#endif
	if (!turn)
		return 0;
	close(file);
	snprintf(left, sizeof(left), "%04d", turn - 1);
	execl(argv[turn % 2 ? 5 : 3 + turn / 2 % 2], "program", left, argv[2], argv[3], argv[4], argv[5], NULL);
	return 1;
}
