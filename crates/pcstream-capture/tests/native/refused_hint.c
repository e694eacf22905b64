// SPDX-License-Identifier: MIT OR Apache-2.0
// Sets a write hint as RocksDB 7 does: 4 bytes of it, with others behind them. The kernel reads 8, and refuses.
#define _GNU_SOURCE
#include <fcntl.h>
#include <stdint.h>
#include <unistd.h>

int main(void)
{
	static char page[4096];
	uint32_t hint[2] = { 2, 0xdead };
	int file = open("hinted", O_CREAT | O_WRONLY, 0600);

	if (file < 0 || fcntl(file, F_SET_RW_HINT, hint) != -1)
		return 1;
	return write(file, page, sizeof(page)) != sizeof(page) || fsync(file);
}
