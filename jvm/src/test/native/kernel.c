/* SPDX-License-Identifier: MIT OR Apache-2.0 OR GPL-2.0-only */
/*
 * Stands for the BPF program in tests: preloaded into a JVM, it takes the agent's prctl options and
 * reads the calling thread's slot whenever a call goes to the kernel, as the BPF program would.
 *
 * It appends lines to the file that PCSTREAM_TEST_LOG names:
 *	slot <thread>
 *	path <signature> <frames> <text, with | for tab and ; for newline>, when a call has it
 *	mapped <length> <signature>
 *	call <function> <file name> <thread> <signature>
 * with calls for files named t-* and "full" only, and mkdir, which no hook surrounds, for directories
 * named t-*.
 */
#define _GNU_SOURCE
#include "pcstream_runtime.h"

#include <errno.h>
#include <fcntl.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/sendfile.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <unistd.h>

static int log_file = -1;
static __thread const struct pcstream_slot *slot;

__attribute__((constructor)) static void start(void)
{
	const char *name = getenv("PCSTREAM_TEST_LOG");

	if (name)
		log_file = open(name, O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0600);
}

__attribute__((format(printf, 1, 2))) static void note(const char *format, ...)
{
	char line[8192];
	va_list arguments;
	int saved = errno, length;

	va_start(arguments, format);
	length = vsnprintf(line, sizeof(line), format, arguments);
	va_end(arguments);
	if (syscall(SYS_write, log_file, line, length) != length)
		abort();
	errno = saved;
}

static void named(const struct pcstream_path *path)
{
	char text[PCSTREAM_PATH_TEXT];

	if (!path)
		return;
	if (path->bytes > sizeof(text))
		abort();
	for (unsigned int i = 0; i < path->bytes; i++)
		text[i] = path->text[i] == '\t' ? '|' : path->text[i] == '\n' ? ';' : path->text[i];
	note("path %016llx %u %.*s\n", path->signature, path->frames, (int)path->bytes, text);
}

static int wanted(const char *name)
{
	return !strncmp(name, "t-", 2) || !strcmp(name, "full");
}

static void called(const char *function, const char *path)
{
	const char *slash = strrchr(path, '/');
	const char *name = slash ? slash + 1 : path;

	if (log_file < 0 || !wanted(name))
		return;
	/* The two halves of a slot belong together. */
	if (slot && slot->path && slot->path->signature != slot->signature)
		abort();
	named(slot ? slot->path : NULL);
	note("call %s %s %d %016llx\n", function, name, gettid(), slot ? slot->signature : 0);
}

static void called_fd(const char *function, int fd)
{
	char link[64], path[4096];
	int saved = errno;
	ssize_t length;

	snprintf(link, sizeof(link), "/proc/self/fd/%d", fd);
	length = readlink(link, path, sizeof(path) - 1);
	if (length > 0) {
		path[length] = 0;
		called(function, path);
	}
	errno = saved;
}

int prctl(int option, ...)
{
	unsigned long a[4];
	va_list arguments;

	va_start(arguments, option);
	for (int i = 0; i < 4; i++)
		a[i] = va_arg(arguments, unsigned long);
	va_end(arguments);
	if (log_file >= 0 && option == PCSTREAM_THREAD_SLOT) {
		slot = (const struct pcstream_slot *)a[0];
		note("slot %d\n", gettid());
	} else if (log_file >= 0 && option == PCSTREAM_MAPPED) {
		/* A mapping begins at a page. */
		const struct pcstream_path *path = (const struct pcstream_path *)a[2];

		named(path);
		note("mapped %lu %016llx%s\n", a[1], path->signature, a[0] % (unsigned long)getpagesize() ? " unaligned" : "");
	}
	return (int)syscall(SYS_prctl, option, a[0], a[1], a[2], a[3]);
}

ssize_t write(int fd, const void *bytes, size_t n)
{
	called_fd("write", fd);
	return syscall(SYS_write, fd, bytes, n);
}

ssize_t writev(int fd, const struct iovec *parts, int n)
{
	called_fd("writev", fd);
	return syscall(SYS_writev, fd, parts, n);
}

ssize_t pwrite64(int fd, const void *bytes, size_t n, off_t at)
{
	called_fd("pwrite", fd);
	return syscall(SYS_pwrite64, fd, bytes, n, at);
}

int ftruncate64(int fd, off_t length)
{
	called_fd("ftruncate", fd);
	return (int)syscall(SYS_ftruncate, fd, length);
}

ssize_t sendfile64(int to, int from, off_t *at, size_t n)
{
	called_fd("sendfile", to);
	return syscall(SYS_sendfile, to, from, at, n);
}

ssize_t copy_file_range(int from, off_t *from_at, int to, off_t *to_at, size_t n, unsigned int flags)
{
	called_fd("copy_file_range", to);
	return syscall(SYS_copy_file_range, from, from_at, to, to_at, n, flags);
}

int mkdir(const char *path, mode_t mode)
{
	called("mkdir", path);
	return (int)syscall(SYS_mkdir, path, mode);
}
