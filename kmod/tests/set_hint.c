/* SPDX-License-Identifier: GPL-2.0-only */
/* Sets the write hint of files: set_hint HINT FILE..., HINT from 1 (none) to 5 (extreme). */
#define _GNU_SOURCE
#include <fcntl.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

int main(int count, char **arguments)
{
	uint64_t hint = count > 1 ? strtoull(arguments[1], NULL, 10) : 0;

	for (int i = 2; i < count; i++) {
		int fd = open(arguments[i], O_RDONLY);

		if (fd < 0 || fcntl(fd, F_SET_RW_HINT, &hint)) {
			perror(arguments[i]);
			return 1;
		}
		close(fd);
	}
	return 0;
}
