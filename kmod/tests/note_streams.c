/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * In the place of `pcstream place`: gives a server (`pcstream serve`) a stream for each of the first pages of its device, whatever
 * the drive has, and prints a line; then waits until its input ends. Usage: note_streams SOCKET STREAM PAGES.
 * The layout of the map is that of crates/pcstream-ublk/src/table.rs.
 */
#include <linux/bpf.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/un.h>
#include <unistd.h>

#define SLOTS (1u << 20)
#define WORDS (SLOTS + 32 * 4)

static int fail(const char *what)
{
	perror(what);
	return 1;
}

static int make_map(void)
{
	union bpf_attr attributes;

	memset(&attributes, 0, sizeof(attributes));
	attributes.map_type = BPF_MAP_TYPE_ARRAY;
	attributes.key_size = 4;
	attributes.value_size = 8;
	attributes.max_entries = WORDS;
	attributes.map_flags = BPF_F_MMAPABLE;
	return syscall(SYS_bpf, BPF_MAP_CREATE, &attributes, sizeof(attributes));
}

/* Sends the map, and says whether the server takes it. */
static int hand_over(int server, int map)
{
	char line[256] = "", byte = 'm', space[CMSG_SPACE(sizeof(int))] = "";
	struct iovec data = { &byte, 1 };
	struct msghdr message = { .msg_iov = &data, .msg_iovlen = 1, .msg_control = space, .msg_controllen = sizeof(space) };
	struct cmsghdr *control = CMSG_FIRSTHDR(&message);

	if (read(server, line, sizeof(line) - 1) <= 0)
		return fail("greeting");
	control->cmsg_level = SOL_SOCKET;
	control->cmsg_type = SCM_RIGHTS;
	control->cmsg_len = CMSG_LEN(sizeof(int));
	memcpy(CMSG_DATA(control), &map, sizeof(map));
	if (sendmsg(server, &message, 0) != 1 || read(server, line, sizeof(line) - 1) <= 0)
		return fail("map");
	return strncmp(line, "ok", 2) ? fail(line) : 0;
}

int main(int count, char **arguments)
{
	struct sockaddr_un address = { .sun_family = AF_UNIX };
	int server = socket(AF_UNIX, SOCK_STREAM, 0), map = make_map();
	uint64_t *words;
	char byte;

	if (count != 4 || server < 0 || map < 0)
		return fail("usage: note_streams SOCKET STREAM PAGES");
	snprintf(address.sun_path, sizeof(address.sun_path), "%s", arguments[1]);
	words = mmap(NULL, WORDS * 8, PROT_READ | PROT_WRITE, MAP_SHARED, map, 0);
	if (words == MAP_FAILED || connect(server, (struct sockaddr *)&address, sizeof(address)))
		return fail(arguments[1]);
	for (uint64_t page = 0; page < strtoull(arguments[3], NULL, 10); page++)
		words[page] = page << 8 | strtoull(arguments[2], NULL, 10);
	if (hand_over(server, map))
		return 1;
	puts("noted");
	fflush(stdout);
	return read(0, &byte, 1) < 0;
}
