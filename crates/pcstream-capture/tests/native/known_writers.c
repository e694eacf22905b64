/* Functions that each write a known number of pages, in ways that hide who wrote which. The first argument says how; the second is a
 * directory. What it prints is the truth: function and pages. */
#define _GNU_SOURCE
#include <fcntl.h>
#include <liburing.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#define OWN_FRAME __attribute__((noinline, noclone))
/* No call is the last thing that a function does: else it would have no frame. */
#define END __asm__ volatile("" ::: "memory")
#define PAGE 4096L

static char *page;

static void must(int is_right)
{
	if (!is_right)
		abort();
}

static int file_of(const char *dir, const char *name, int flags)
{
	char path[4096];
	int fd;

	snprintf(path, sizeof(path), "%s/%s", dir, name);
	fd = open(path, O_RDWR | O_CREAT | O_TRUNC | flags, 0600);
	must(fd >= 0);
	return fd;
}

/* Writes to some pages of large folios, which the first function made and which stay in the page cache. */

#define ROUNDS 20
#define RECORDS 200

OWN_FRAME static void make_file(int fd)
{
	char *data = calloc(256, PAGE);
	int i;

	for (i = 0; i < 8; i++)
		must(write(fd, data, 256 * PAGE) == 256 * PAGE);
	must(!fsync(fd));
	free(data);
	END;
}

OWN_FRAME static void put_header(int fd)
{
	must(pwrite(fd, page, PAGE, 0) == PAGE);
	END;
}

OWN_FRAME static void put_record(int fd, long at)
{
	must(pwrite(fd, page, PAGE, at * PAGE) == PAGE);
	END;
}

static void folios(const char *dir)
{
	int fd = file_of(dir, "log", 0), round, at;

	make_file(fd);
	for (round = 0; round < ROUNDS; round++) {
		put_header(fd);
		for (at = 1; at <= RECORDS; at++)
			put_record(fd, at);
		must(!fdatasync(fd));
	}
	printf("make_file %d\nput_header %d\nput_record %d\n", 8 * 256, ROUNDS, ROUNDS * RECORDS);
}

/* One function with an array of variable length, called by two others: the stack keeps return addresses of earlier calls where the
 * array is now. */

static unsigned long state = 88172645463325252UL;

static unsigned int chance(void)
{
	state ^= state << 13;
	state ^= state >> 7;
	state ^= state << 17;
	return state >> 11;
}

OWN_FRAME static void flush_page(int fd, long at, int bytes)
{
	char header[bytes];

	snprintf(header, 16, "%d", bytes);
	__asm__ volatile("" ::"r"(header) : "memory");
	must(pwrite(fd, page, PAGE, at * PAGE) == PAGE);
	END;
}

OWN_FRAME static void insert(int fd, long at, int bytes)
{
	char key[256];

	snprintf(key, 20, "%d", bytes);
	__asm__ volatile("" ::"r"(key) : "memory");
	flush_page(fd, at, bytes);
	END;
}

OWN_FRAME static void delete (int fd, long at, int bytes)
{
	char key[128];

	snprintf(key, 20, "%d", bytes);
	__asm__ volatile("" ::"r"(key) : "memory");
	flush_page(fd, at, bytes);
	END;
}

static void arrays(const char *dir)
{
	int fds[2] = { file_of(dir, "inserts", 0), file_of(dir, "deletes", 0) }, i;
	long pages[2] = { 0, 0 };

	for (i = 0; i < 4000; i++) {
		int which = chance() & 1, bytes = 32 + 16 * (chance() % 16);

		(which ? delete : insert)(fds[which], pages[which]++, bytes);
	}
	printf("insert %ld\ndelete %ld\n", pages[0], pages[1]);
}

/* Requests of io_uring that a worker runs, and linked ones, which run when the task is elsewhere. */

static struct io_uring ring;

static void queue(int fd, long at, int flags)
{
	struct io_uring_sqe *sqe = io_uring_get_sqe(&ring);

	io_uring_prep_write(sqe, fd, page, PAGE, at * PAGE);
	sqe->flags |= flags;
}

static void submit(int requests)
{
	struct io_uring_cqe *cqe;

	must(io_uring_submit(&ring) == requests);
	/* Other system calls, after each of which requests may run. */
	while ((int)io_uring_cq_ready(&ring) < requests)
		getppid();
	while (requests--) {
		must(!io_uring_wait_cqe(&ring, &cqe) && cqe->res == PAGE);
		io_uring_cqe_seen(&ring, cqe);
	}
}

OWN_FRAME static void put_plain(int fd, long at)
{
	queue(fd, at, 0);
	submit(1);
	END;
}

OWN_FRAME static void put_async(int fd, long at)
{
	queue(fd, at, IOSQE_ASYNC);
	submit(1);
	END;
}

OWN_FRAME static void put_direct(int fd, long at)
{
	queue(fd, at, IOSQE_IO_LINK);
	queue(fd, at + 1, 0);
	submit(2);
	END;
}

static void requests(const char *dir)
{
	int plain = file_of(dir, "plain", 0), async = file_of(dir, "async", 0), direct = file_of(dir, "direct", O_DIRECT), i;

	must(!io_uring_queue_init(8, &ring, 0));
	for (i = 0; i < 300; i++) {
		put_plain(plain, i);
		put_async(async, i);
		put_direct(direct, 2 * i);
	}
	printf("put_plain 300\nput_async 300\nput_direct 600\n");
}

/* A page here and there of large folios, left dirty. */
static void some(const char *dir)
{
	int fd = file_of(dir, "log", 0), at;

	make_file(fd);
	for (at = 0; at < 8 * 256; at += 16)
		put_record(fd, at);
	printf("make_file %d\nput_record %d\n", 8 * 256, 8 * 16);
}

/* Large folios that are cut while they are dirty. */

OWN_FRAME static void cut_file(const char *dir, int number)
{
	char name[16];
	int fd;

	snprintf(name, sizeof(name), "cut%d", number);
	fd = file_of(dir, name, 0);
	make_file(fd);
	must(pwrite(fd, page - PAGE * 255, PAGE * 256, 0) == PAGE * 256 && !ftruncate(fd, 175 * PAGE));
	must(!fsync(fd) && !close(fd));
	END;
}

static void cuts(const char *dir)
{
	int i;

	for (i = 0; i < 20; i++)
		cut_file(dir, i);
	printf("make_file %d\ncut_file %d\n", 20 * 8 * 256, 20 * 175);
}

/* A file of single blocks in many groups, written back while others fill the journal. So ext4 makes large folios dirty again that it
 * was to write, in the task that wants them written. Needs the file system for itself. */

#define KEPT 4096

/* All but every second block of the file system is taken. Returns how many are left. */
static long take_space(const char *dir)
{
	int fd = file_of(dir, "rest", 0);
	long at = 0, pages, i;

	for (pages = 1 << 15; pages; pages /= 2)
		while (!fallocate(fd, 0, at * PAGE, pages * PAGE))
			at += pages;
	for (i = 0; i < at; i += 2)
		must(!fallocate(fd, FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, i * PAGE, PAGE));
	return at / 2;
}

/* Changes inodes until it is killed. */
static pid_t fill_journal(const char *dir)
{
	pid_t child = fork();
	char path[4096];
	int i;

	must(child >= 0);
	for (i = 0; !child; i++) {
		snprintf(path, sizeof(path), "%s/kept%d", dir, i % KEPT);
		chmod(path, 0600 + (i / KEPT & 7));
	}
	return child;
}

OWN_FRAME static void put_part(int fd)
{
	must(write(fd, page - PAGE * 255, PAGE * 256) == PAGE * 256);
	END;
}

static void again(const char *dir)
{
	/* With less room than this ext4 would write in another way. */
	int parts = take_space(dir) / 4 / 256, i, fd;
	pid_t others[3];
	char name[16];

	for (i = 0; i < KEPT; i++) {
		snprintf(name, sizeof(name), "kept%d", i);
		close(file_of(dir, name, 0));
	}
	sync();
	for (i = 0; i < 3; i++)
		others[i] = fill_journal(dir);
	fd = file_of(dir, "data", 0);
	for (i = 1; i <= parts; i++) {
		put_part(fd);
		must(i % 8 || !fdatasync(fd));
	}
	for (i = 0; i < 3; i++)
		must(!kill(others[i], SIGKILL) && waitpid(others[i], NULL, 0) == others[i]);
	printf("put_part %d\n", parts * 256);
}

int main(int argc, char **argv)
{
	static const struct {
		const char *name;
		void (*run)(const char *dir);
	} ways[] = { { "folios", folios }, { "arrays", arrays }, { "requests", requests },
		     { "some", some },	   { "cuts", cuts },	 { "again", again } };
	char *pages;
	unsigned int i;

	must(argc == 3);
	pages = aligned_alloc(PAGE, 256 * PAGE);
	must(!!pages);
	memset(pages, 1, 256 * PAGE);
	page = pages + 255 * PAGE;
	for (i = 0; i < sizeof(ways) / sizeof(*ways); i++)
		if (!strcmp(argv[1], ways[i].name))
			ways[i].run(argv[2]);
	return 0;
}
