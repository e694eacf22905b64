/* SPDX-License-Identifier: MIT OR Apache-2.0 OR GPL-2.0-only */
/*
 * A program that owns a block device: it writes a log and a table on it by io_uring, each write with the stream that its call path
 * earned.
 *
 *	cc -O2 -g -I.. -o two_streams two_streams.c ../pcstream.c -luring
 *	two_streams /dev/nvme1n1 [ROUNDS [STOP]]	overwrites the first 5 MiB of the device!
 *	pcstream place --on /dev/nvme1n1 --write-buffers ./two_streams
 *
 * The log is a circle of 1 MiB, the table 4 MiB behind it, of which a piece is written after each eighth one of the log. It ends after
 * ROUNDS writes of the log (10,000 unless given; 0: never), or once the file STOP is there. It prints the stream of each of the two
 * whenever that is another one:
 *
 *	write 96: the log has stream 2
 *	write 520: the table has stream 3
 *
 * Linux 6.16 has streams in requests. Where a device has none, the numbers of a dry run (--sink none) are printed only.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <liburing.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <unistd.h>

#include <pcstream.h>

#define PIECE (64 << 10)
#define LOG_PIECES 16
#define TABLE_PIECES 64
/* Where a request of io_uring has its write stream: sqe->write_stream of liburing 2.11 and newer. */
#define WRITE_STREAM_AT 44

struct store {
	struct io_uring ring;
	int fd;
	unsigned max_streams; /* of the device */
	long number;	      /* of writes of the log */
	unsigned log_stream, table_stream;
};

static void fail(const char *what, int error)
{
	fprintf(stderr, "two_streams: %s: %s\n", what, strerror(error));
	exit(1);
}

/* The write streams that requests to a device may name; 0: none, as on a partition, which has no queue of its own. */
static unsigned write_streams(int fd)
{
	struct stat about;
	char path[128];
	unsigned streams = 0;
	FILE *file;

	if (fstat(fd, &about))
		fail("the device", errno);
	snprintf(path, sizeof path, "/sys/dev/block/%u:%u/queue/max_write_streams", major(about.st_rdev), minor(about.st_rdev));
	file = fopen(path, "r");
	if (file) {
		if (fscanf(file, "%u", &streams) != 1)
			streams = 0;
		fclose(file);
	}
	return streams;
}

/* One write, and the wait for its end. */
static void submit(struct store *store, char *data, unsigned stream, long piece)
{
	struct io_uring_sqe *sqe = io_uring_get_sqe(&store->ring);
	struct io_uring_cqe *cqe;
	int result;

	io_uring_prep_write(sqe, store->fd, data, PIECE, piece * (long)PIECE);
	if (stream <= store->max_streams)
		((unsigned char *)sqe)[WRITE_STREAM_AT] = (unsigned char)stream;
	result = io_uring_submit_and_wait(&store->ring, 1);
	if (result < 0 || (result = io_uring_wait_cqe(&store->ring, &cqe)) < 0)
		fail("io_uring", -result);
	result = cqe->res;
	io_uring_cqe_seen(&store->ring, cqe);
	if (result != PIECE)
		fail("a write", result < 0 ? -result : EIO);
}

static void say(struct store *store, const char *what, unsigned *before, unsigned stream)
{
	if (*before != stream)
		printf("write %ld: the %s has stream %u\n", store->number, what, stream);
	*before = stream;
}

/* A program's two ways to write. The call path that asks is what counts; who submits does not. */
static __attribute__((noinline)) void log_append(struct store *store, char *data)
{
	unsigned stream = pcstream_stream(store->fd, data, PIECE);

	say(store, "log", &store->log_stream, stream);
	submit(store, data, stream, store->number % LOG_PIECES);
}

static __attribute__((noinline)) void table_flush(struct store *store, char *data)
{
	unsigned stream = pcstream_stream(store->fd, data, PIECE);

	say(store, "table", &store->table_stream, stream);
	submit(store, data, stream, LOG_PIECES + store->number / 8 % TABLE_PIECES);
}

int main(int argc, char **argv)
{
	static struct store store;
	long rounds = argc > 2 ? atol(argv[2]) : 10000;
	const char *stop = argc > 3 ? argv[3] : NULL;
	void *log, *table;
	int result;

	if (argc < 2) {
		fprintf(stderr, "usage: two_streams DEVICE [ROUNDS [STOP]]\n");
		return 2;
	}
	store.fd = open(argv[1], O_RDWR | O_DIRECT | O_EXCL | O_CLOEXEC);
	if (store.fd < 0)
		fail(argv[1], errno);
	store.max_streams = write_streams(store.fd);
	if (posix_memalign(&log, PIECE, PIECE) || posix_memalign(&table, PIECE, PIECE))
		fail("memory", ENOMEM);
	memset(log, 'l', PIECE);
	memset(table, 't', PIECE);
	result = io_uring_queue_init(8, &store.ring, 0);
	if (result)
		fail("io_uring", -result);
	setlinebuf(stdout);
	for (; (!rounds || store.number < rounds) && !(stop && !access(stop, F_OK)); store.number++) {
		log_append(&store, log);
		if (store.number % 8 == 0)
			table_flush(&store, table);
	}
	io_uring_queue_exit(&store.ring);
	printf("%ld writes of the log, with stream %u at the end; of the table %u\n", store.number, store.log_stream,
	       store.table_stream);
	return 0;
}
