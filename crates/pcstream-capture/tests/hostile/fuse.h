/* What programs have in common that serve a file system with one file, whose node is 2, by FUSE. */
#define _GNU_SOURCE
#include <errno.h>
#include <linux/fuse.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <sys/uio.h>

/* /dev/fuse. */
static int device;

static void fail(const char *what)
{
	perror(what);
	exit(2);
}

static void answer(uint64_t unique, int error, const void *data, size_t bytes)
{
	struct fuse_out_header head = { .len = sizeof(head) + bytes, .error = -error, .unique = unique };
	struct iovec parts[2] = { { &head, sizeof(head) }, { (void *)data, bytes } };

	if (writev(device, parts, 2) < 0 && errno != ENOENT)
		fail("answer");
}

static struct fuse_attr attributes(uint64_t node, uint64_t bytes)
{
	struct fuse_attr a = { .ino = node, .nlink = 1, .blksize = 4096, .mode = S_IFDIR | 0755 };

	if (node != 1) {
		a.mode = S_IFREG | 0755;
		a.size = bytes;
	}
	return a;
}
