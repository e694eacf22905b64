/*
 * Writes the file "absent" from a stack whose upper pages are absent at the first write: what a page that the kernel moves or swapped
 * out looks like to the recorder. First it writes "absent.warm", until a file of that name is in the directory of its argument.
 */
#define _GNU_SOURCE
#include <fcntl.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <unistd.h>

#define PART __attribute__((noinline))
#define BARRIER __asm__ volatile("" ::: "memory")
#define STACK (1 << 20)
#define ABSENT (4 * 4096)

static char page[4096], seen[4096];

/* Its callers' frames lie in other pages than its own. */
PART void put(int fd, int without)
{
	char far[3 * 4096];

	__asm__ volatile("" ::"r"(far) : "memory");
	if (without) {
		unsigned long above = ((unsigned long)far + sizeof far) & -4096UL;

		/* The file keeps the content. */
		if (madvise((void *)above, ABSENT, MADV_DONTNEED))
			exit(1);
	}
	if (write(fd, page, sizeof page) != sizeof page)
		exit(1);
	BARRIER;
}

PART void save(int fd, int without)
{
	char own[4096];

	__asm__ volatile("" ::"r"(own) : "memory");
	put(fd, without);
	BARRIER;
}

static void *thread(void *unused)
{
	char far[2 * ABSENT]; /* libc uses what is above */
	int fd = open("absent.warm", O_CREAT | O_WRONLY, 0600);

	__asm__ volatile("" ::"r"(far) : "memory");
	do {
		save(fd, 0);
		if (fsync(fd))
			exit(1);
	} while (access(seen, F_OK));
	fd = open("absent", O_CREAT | O_WRONLY, 0600);
	for (int i = 0; i < 100; i++)
		save(fd, !i);
	return unused;
}

int main(int argc, char **argv)
{
	int file = memfd_create("stack", 0);
	pthread_attr_t attributes;
	pthread_t t;
	void *stack;

	if (argc != 2 || file < 0 || ftruncate(file, STACK))
		return 1;
	alarm(900);
	snprintf(seen, sizeof seen, "%s/absent.warm", argv[1]);
	stack = mmap(0, STACK, PROT_READ | PROT_WRITE, MAP_SHARED, file, 0);
	if (stack == MAP_FAILED)
		return 1;
	pthread_attr_init(&attributes);
	pthread_attr_setstack(&attributes, stack, STACK);
	return pthread_create(&t, &attributes, thread, 0) || pthread_join(t, 0);
}
