/*
 * Plugins that have as many pages of code as each other, where one process or address space follows another.
 * Usage: plugins siblings|in_turn|unanswered DIRECTORY PLUGIN PLUGIN
 *   siblings  children of one process load the plugins in turn; the memory of one is the next one's
 *   in_turn   one process loads the first, unloads it, and loads the second elsewhere
 *   unanswered  the same, while its parent is stopped
 * Prints each plugin's function and the pages that it wrote. With -DPLUGIN=NAME the source is a plugin whose function has that name.
 */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#ifdef PLUGIN

static char page[4096];
static volatile int done;

__attribute__((noinline)) void PLUGIN(int file, int pages)
{
	for (int i = 0; i < pages; i++)
		if (write(file, page, sizeof(page)) != sizeof(page))
			abort();
	done++;
}

void run_plugin(int file, int pages)
{
	PLUGIN(file, pages);
	done++;
}

#else

static void *run(const char *plugin, const char *directory, int number, int pages)
{
	char path[4096];
	void *loaded = dlopen(plugin, RTLD_NOW);
	void (*run_plugin)(int, int) = loaded ? dlsym(loaded, "run_plugin") : NULL;
	int file;

	snprintf(path, sizeof(path), "%s/%d", directory, number);
	file = open(path, O_RDWR | O_CREAT | O_TRUNC, 0644);
	if (!run_plugin || file < 0)
		exit(1);
	run_plugin(file, pages);
	fsync(file);
	close(file);
	return loaded;
}

int main(int argc, char **argv)
{
	int pages[] = { 100, 101 };

	if (argc != 5)
		return 1;
	if (!strcmp(argv[1], "siblings")) {
		for (int i = 0; i < 6; i++) {
			int status;

			if (!fork()) {
				run(argv[3 + i % 2], argv[2], i, pages[i % 2]);
				_exit(0);
			}
			if (wait(&status) < 0 || status)
				return 1;
		}
		printf("put_alpha %d\nput_beta %d\n", 3 * pages[0], 3 * pages[1]);
		return 0;
	}
	int unanswered = !strcmp(argv[1], "unanswered");

	if (unanswered)
		kill(getppid(), SIGSTOP);
	void *first = run(argv[3], argv[2], 0, pages[0]);
	char *place = (char *)((unsigned long)dlsym(first, "run_plugin") & ~4095UL);

	dlclose(first);
	mmap(place, 4096, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED_NOREPLACE, -1, 0);
	run(argv[4], argv[2], 1, pages[1]);
	if (unanswered)
		kill(getppid(), SIGCONT);
	printf("put_alpha %d\nput_beta %d\n", pages[0], pages[1]);
	return 0;
}

#endif
