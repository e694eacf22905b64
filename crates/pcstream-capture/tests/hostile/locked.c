/* A process with a lock that the kernel takes for others, too, and that stays locked as long as this program runs.
 *
 *   locked memory DIR      the lock of its address space
 *   locked file DIR FILE   that of the inode of FILE; on XFS, whoever reads the file takes it
 *
 * The process waits for an answer of a file system that this program serves at DIR. Its number is printed once it does so. */
#include "fuse.h"

#include <fcntl.h>
#include <sched.h>
#include <signal.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/mount.h>
#include <sys/prctl.h>
#include <unistd.h>

#define BYTES 65536

static void serve(const struct fuse_in_header *request)
{
	static const char zeros[BYTES];
	struct fuse_init_out init = { .major = 7, .minor = 31, .max_write = BYTES, .time_gran = 1 };
	struct fuse_entry_out entry = { .nodeid = 2, .attr_valid = 3600, .attr = attributes(2, BYTES) };
	struct fuse_attr_out attr = { .attr_valid = 3600, .attr = attributes(request->nodeid, BYTES) };
	struct fuse_open_out opened = { .fh = 1 };
	const struct fuse_read_in *read = (const void *)(request + 1);

	switch (request->opcode) {
	case FUSE_INIT:
		return answer(request->unique, 0, &init, sizeof(init));
	case FUSE_LOOKUP:
		return answer(request->unique, 0, &entry, sizeof(entry));
	case FUSE_GETATTR:
		return answer(request->unique, 0, &attr, sizeof(attr));
	case FUSE_OPEN:
		return answer(request->unique, 0, &opened, sizeof(opened));
	case FUSE_READ:
		return answer(request->unique, 0, zeros, read->size);
	case FUSE_FORGET:
	case FUSE_BATCH_FORGET:
	case FUSE_INTERRUPT:
		return;
	default:
		return answer(request->unique, ENOSYS, NULL, 0);
	}
}

static void lock_memory(char *page)
{
	page[0] = 1;
	/* What is dirty is written before the mapping is gone. */
	mmap(page, 4096, PROT_READ, MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED, -1, 0);
}

static void lock_file(const char *page, const char *path)
{
	int fd = open(path, O_WRONLY);

	if (fd < 0)
		fail(path);
	pwrite(fd, page, 4096, BYTES);
}

int main(int argc, char **argv)
{
	static char buffer[1 << 20];
	const struct fuse_in_header *request = (void *)buffer;
	char text[4200];
	uint32_t last;
	pid_t child;

	/* Whoever waits for the number learns that the process never asked. */
	alarm(900);
	if (unshare(CLONE_NEWNS) || mount(NULL, "/", NULL, MS_REC | MS_PRIVATE, NULL))
		fail("unshare");
	device = open("/dev/fuse", O_RDWR | O_CLOEXEC);
	snprintf(text, sizeof(text), "fd=%d,rootmode=40000,user_id=0,group_id=0", device);
	if (mount("fuse", argv[2], "fuse", MS_NOSUID | MS_NODEV, text))
		fail("mount FUSE");
	last = argc == 3 ? FUSE_WRITE : FUSE_READ;
	child = fork();
	if (!child) {
		prctl(PR_SET_PDEATHSIG, SIGKILL);
		close(device);
		snprintf(text, sizeof(text), "%s/page", argv[2]);
		int fd = open(text, O_RDWR);
		char *page = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);

		if (fd < 0 || page == MAP_FAILED)
			fail(text);
		if (argc == 3)
			lock_memory(page);
		else
			lock_file(page, argv[3]);
		exit(3);
	}
	while (read(device, buffer, sizeof(buffer)) >= 0 || errno == ENOENT || errno == EINTR) {
		if (request->opcode != last) {
			serve(request);
			continue;
		}
		printf("%d\n", child);
		fflush(stdout);
	}
	fail("read");
}
