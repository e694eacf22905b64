/* A program on a file system that it serves itself, and that has no answer for anybody else.
 *
 *   silent overlay DIR TARGET ASKED SEEN   the program is the lower layer of an overlay, both mounted in a user namespace
 *   silent beneath DIR TARGET ASKED SEEN   the program has a mount of its own; the same path leads others into what it serves
 *
 * The program writes TARGET, and ends once there is a file SEEN. If anybody else asks for anything, there will be a file
 * ASKED; then everything ends, for nobody shall wait. */
#include "fuse.h"

#include <fcntl.h>
#include <poll.h>
#include <sched.h>
#include <signal.h>
#include <string.h>
#include <sys/mount.h>
#include <sys/wait.h>
#include <unistd.h>

static char *image, low[4096], merged[4096], program[4200];
static size_t image_bytes;
static int beneath;
static pid_t child;

static void put(const char *path, const char *text)
{
	int fd = open(path, O_WRONLY | O_CREAT, 0755);

	if (fd < 0 || write(fd, text, strlen(text)) != (ssize_t)strlen(text))
		fail(path);
	close(fd);
}

/* The program itself. */
static int write_target(const char *target, const char *seen)
{
	static char page[4096];
	int fd = open(target, O_CREAT | O_WRONLY, 0600);

	for (int i = 0; i < 16; i++)
		if (write(fd, page, sizeof(page)) != sizeof(page))
			fail(target);
	if (fsync(fd))
		fail("fsync");
	for (int i = 0; access(seen, F_OK); i++) {
		if (i == 3000)
			fail(seen);
		usleep(10000);
	}
	return 0;
}

static void serve(const struct fuse_in_header *request)
{
	const void *in = request + 1;
	struct fuse_init_out init = { .major = 7, .minor = 31, .max_write = 65536, .time_gran = 1 };
	struct fuse_entry_out entry = { .nodeid = 2, .attr_valid = 3600, .attr = attributes(2, image_bytes) };
	struct fuse_attr_out attr = { .attr_valid = 3600, .attr = attributes(request->nodeid, image_bytes) };
	struct fuse_open_out opened = { .fh = 1 };
	struct fuse_statfs_out statfs = { .st = { .bsize = 4096, .namelen = 255 } };
	const struct fuse_read_in *read = in;
	size_t left;

	switch (request->opcode) {
	case FUSE_INIT:
		return answer(request->unique, 0, &init, sizeof(init));
	case FUSE_LOOKUP:
		if (strcmp(in, "program"))
			return answer(request->unique, ENOENT, NULL, 0);
		return answer(request->unique, 0, &entry, sizeof(entry));
	case FUSE_GETATTR:
		return answer(request->unique, 0, &attr, sizeof(attr));
	case FUSE_OPEN:
	case FUSE_OPENDIR:
		return answer(request->unique, 0, &opened, sizeof(opened));
	case FUSE_READ:
		left = read->offset < image_bytes ? image_bytes - read->offset : 0;
		return answer(request->unique, 0, image + read->offset, left < read->size ? left : read->size);
	case FUSE_STATFS:
		return answer(request->unique, 0, &statfs, sizeof(statfs));
	case FUSE_RELEASE:
	case FUSE_RELEASEDIR:
	case FUSE_FLUSH:
		return answer(request->unique, 0, NULL, 0);
	case FUSE_FORGET:
	case FUSE_BATCH_FORGET:
	case FUSE_INTERRUPT:
		return;
	default:
		return answer(request->unique, ENOSYS, NULL, 0);
	}
}

static void end(int code)
{
	if (beneath)
		umount2(low, MNT_DETACH);
	_exit(code);
}

static void wake(int signal)
{
	(void)signal;
}

static void serve_child(const char *asked)
{
	static char buffer[1 << 20];
	const struct fuse_in_header *request = (void *)buffer;
	struct pollfd ready = { .fd = device, .events = POLLIN };
	sigset_t none;
	int status;

	sigemptyset(&none);
	for (;;) {
		if (waitpid(child, &status, WNOHANG) == child)
			end(WIFEXITED(status) ? WEXITSTATUS(status) : 3);
		if (ppoll(&ready, 1, NULL, &none) < 0 || read(device, buffer, sizeof(buffer)) < 0)
			continue;
		/* What the kernel asks for itself has no number. */
		if (request->pid && request->pid != (uint32_t)child && request->pid != (uint32_t)getpid()) {
			char who[64];

			snprintf(who, sizeof(who), "opcode %u of %u\n", request->opcode, request->pid);
			put(asked, who);
			kill(child, SIGKILL);
			end(4);
		}
		serve(request);
	}
}

static void in_user_namespace(void)
{
	char map[64];
	uid_t user = getuid();
	gid_t group = getgid();

	if (unshare(CLONE_NEWUSER | CLONE_NEWNS))
		fail("unshare");
	put("/proc/self/setgroups", "deny");
	snprintf(map, sizeof(map), "0 %u 1", user);
	put("/proc/self/uid_map", map);
	snprintf(map, sizeof(map), "0 %u 1", group);
	put("/proc/self/gid_map", map);
}

static void run_child(char **argv)
{
	char layers[8300];

	if (beneath) {
		if (unshare(CLONE_NEWNS) || mount(NULL, "/", NULL, MS_REC | MS_PRIVATE, NULL) ||
		    mount("none", low, "tmpfs", 0, NULL))
			fail("mount a tmpfs");
		int fd = open(program, O_CREAT | O_WRONLY, 0755);

		if (write(fd, image, image_bytes) != (ssize_t)image_bytes || close(fd))
			fail(program);
	} else {
		snprintf(layers, sizeof(layers), "lowerdir=%s:%s,userxattr", low, argv[2]);
		if (mount("overlay", merged, "overlay", MS_NOSUID | MS_NODEV, layers))
			fail("mount an overlay");
	}
	sigset_t none;

	sigemptyset(&none);
	sigprocmask(SIG_SETMASK, &none, NULL);
	execl(program, "program", argv[3], argv[5], NULL);
	fail(program);
}

int main(int argc, char **argv)
{
	char options[128];
	struct stat own;
	sigset_t children;
	int fd;

	if (argc == 3)
		return write_target(argv[1], argv[2]);
	beneath = !strcmp(argv[1], "beneath");
	snprintf(low, sizeof(low), "%s/low", argv[2]);
	snprintf(merged, sizeof(merged), "%s/merged", argv[2]);
	snprintf(program, sizeof(program), "%s/program", beneath ? low : merged);
	fd = open("/proc/self/exe", O_RDONLY | O_CLOEXEC);
	if (fstat(fd, &own) || !(image = malloc(own.st_size)) || read(fd, image, own.st_size) != own.st_size)
		fail("read itself");
	image_bytes = own.st_size;
	if (!beneath)
		in_user_namespace();
	if (mkdir(low, 0755) || mkdir(merged, 0755) || (device = open("/dev/fuse", O_RDWR | O_CLOEXEC)) < 0)
		fail(low);
	snprintf(options, sizeof(options), "fd=%d,rootmode=40000,user_id=%d,group_id=0,allow_other", device, beneath ? 65534 : 0);
	if (mount("fuse", low, "fuse", MS_NOSUID | MS_NODEV, options))
		fail("mount FUSE");
	sigemptyset(&children);
	sigaddset(&children, SIGCHLD);
	sigprocmask(SIG_BLOCK, &children, NULL);
	signal(SIGCHLD, wake);
	child = fork();
	if (!child)
		run_child(argv);
	serve_child(argv[4]);
}
