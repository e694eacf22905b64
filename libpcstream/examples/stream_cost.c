/* SPDX-License-Identifier: MIT OR Apache-2.0 OR GPL-2.0-only */
/* What a call of pcstream_stream takes: stream_cost DEVICE CALLS. It writes nothing. scripts/stream-cost runs it. */
#define _GNU_SOURCE
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

#include <pcstream.h>

static double seconds(void)
{
	struct timespec now;

	clock_gettime(CLOCK_MONOTONIC, &now);
	return (double)now.tv_sec + (double)now.tv_nsec / 1e9;
}

int main(int argc, char **argv)
{
	static char data[4096];
	long calls = argc > 2 ? atol(argv[2]) : 1000000;
	int fd = argc > 1 ? open(argv[1], O_RDONLY | O_CLOEXEC) : -1;
	double began;

	if (fd < 0 || calls < 1) {
		fprintf(stderr, "usage: stream_cost DEVICE [CALLS]\n");
		return 2;
	}
	/* Call-frame rules are asked for and answered, the table is mapped. */
	for (int i = 0; i < 5000; i++)
		pcstream_stream(fd, data, sizeof data);
	began = seconds();
	for (long i = 0; i < calls; i++)
		pcstream_stream(fd, data, sizeof data);
	printf("%.1f ns per call\n", (seconds() - began) / (double)calls * 1e9);
	return 0;
}
