"""Two servers as filebench defines them, for machines without filebench (Debian has no package of it).

    python filebench.py DIRECTORY varmail|fileserver [--files N] [--mean BYTES] [--writes BYTES] [--writeback BYTES] [--commits N] [--seed N]

The loops are those of filebench's ``workloads/varmail.f`` and ``fileserver.f`` (version 1.5), with its defaults:

varmail: 16 threads, files of 16 KiB on average, one directory (``meandirwidth`` 1,000,000). Each loop:
delete; create, append, fsync, close; open, read whole, append, fsync, close; open, read whole, close.

fileserver: 50 threads, files of 128 KiB on average, 20 entries a directory. Each loop: create, write whole, close; open,
append, close; open, read whole, close; delete; stat. It never syncs.

In both, 80 % of the files exist before the loops begin, sizes have a gamma distribution of shape 1.5, an append has an even
distribution below 16 KiB, and reads and writes are in pieces of 1 MiB. As in filebench's ``fileset.c``, files are picked in
rotation: each thread goes through those that exist, all together through those that do not; a file in use is passed over.

What differs:

- It ends after a number of bytes, not after a time.
- The kernel writes dirty pages back after 30 s and commits ext4's journal after 5 s. Few and small files are replaced many
  times in between, so hardly anything would reach the device. So bytes take the place of time: after each ``--writeback``
  bytes the file system is synced, and ``--commits`` times in between its journal is committed.
- An operation that finds no file is left out and counted.
- Threads are Python's, which run one at a time outside of system calls.
"""

from __future__ import annotations

import argparse
import bisect
import ctypes
import os
import random
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

KIB, MIB = 1 << 10, 1 << 20
GAMMA = 1.5
PREALLOCATED = 0.8
APPEND = 16 * KIB
#: Threads, mean size of a file, entries of a directory.
KINDS = {"varmail": (16, 16 * KIB, 1_000_000), "fileserver": (50, 128 * KIB, 20)}
NOISE = random.Random(0).randbytes(MIB)


class Entry:
    """A file that exists or may exist."""

    def __init__(self, at: int, path: Path, size: int) -> None:
        self.at, self.path, self.size = at, path, size
        self.busy = False


class Files:
    """The files, by whether they exist; each list is ordered by number."""

    def __init__(self, directory: Path, count: int, mean: int, width: int, draw: random.Random) -> None:
        self.entries = [
            Entry(at, place(directory, at, width), max(1, int(draw.gammavariate(GAMMA, mean / GAMMA)))) for at in range(count)
        ]
        self.existing: list[int] = []
        self.absent = list(range(count))
        self.next_absent = 0
        self.lock = threading.Lock()

    @contextmanager
    def picked(self, exists: bool, after: int) -> Iterator[Entry | None]:
        """The first file from number ``after`` on that nobody uses; None if all are in use."""
        with self.lock:
            entry = self._first(self.existing if exists else self.absent, after if exists else self.next_absent)
            if entry is not None:
                entry.busy = True
                if not exists:
                    self.next_absent = entry.at + 1
        try:
            yield entry
        finally:
            if entry is not None:
                entry.busy = False

    def _first(self, numbers: list[int], after: int) -> Entry | None:
        start = bisect.bisect_left(numbers, after)
        for step in range(len(numbers)):
            entry = self.entries[numbers[(start + step) % len(numbers)]]
            if not entry.busy:
                return entry
        return None

    def moved(self, entry: Entry, exists: bool) -> None:
        """It exists from now on, or no longer."""
        with self.lock:
            old, new = (self.absent, self.existing) if exists else (self.existing, self.absent)
            del old[bisect.bisect_left(old, entry.at)]
            bisect.insort(new, entry.at)


def place(directory: Path, at: int, width: int) -> Path:
    """The path of a file: directories have ``width`` entries, of which those that hold files are leaves."""
    parts = [f"f{at}"]
    above = at // width
    while above:
        parts.append(f"d{above % width}")
        above //= width
    return directory.joinpath(*reversed(parts))


class Clock:
    """The kernel's timers, by bytes: a sync of the file system every so many, and commits of the journal in between."""

    def __init__(self, directory: Path, writeback: int, commits: int) -> None:
        self.tick, self.commits = max(1, writeback // commits), commits
        self.root = os.open(directory, os.O_RDONLY)
        self.mark = os.open(directory / "commit", os.O_CREAT | os.O_WRONLY)
        self.libc = ctypes.CDLL(None, use_errno=True)

    def moved(self, before: int, after: int) -> None:
        """Runs out what lies between two numbers of bytes."""
        for tick in range(before // self.tick + 1, after // self.tick + 1):
            if tick % self.commits:
                # Metadata alone, so that the commit takes no data along but what it must.
                os.utime(self.mark, (tick, tick))
                os.fsync(self.mark)
            elif self.libc.syncfs(self.root):
                raise OSError(ctypes.get_errno(), "syncfs")


class Server:
    """The threads and what they share."""

    def __init__(self, directory: Path, kind: str, files: int, mean: int, limit: int, clock: Clock, seed: int) -> None:
        self.threads, usual, width = KINDS[kind]
        self.loop: Callable[[Client], None] = varmail if kind == "varmail" else fileserver
        self.limit, self.seed, self.clock = limit, seed, clock
        self.written = 0
        self.lock = threading.Lock()
        self.left_out = 0
        self.failed: list[BaseException] = []
        self.files = Files(directory / "bigfileset", files, mean or usual, width, random.Random(seed))
        self.prepare(random.Random(seed))

    def prepare(self, draw: random.Random) -> None:
        """Makes the directories, and the files that exist at the beginning, in an order of chance."""
        for folder in {entry.path.parent for entry in self.files.entries}:
            folder.mkdir(parents=True, exist_ok=True)
        entries = list(self.files.entries)
        draw.shuffle(entries)
        for entry in entries[: int(len(entries) * PREALLOCATED)]:
            handle = os.open(entry.path, os.O_CREAT | os.O_WRONLY)
            write(handle, entry.size)
            os.close(handle)
            self.files.moved(entry, True)
        os.sync()

    def count(self, size: int) -> None:
        """So many bytes were written; the kernel's timers are run out for whoever writes a round number of them."""
        with self.lock:
            before, self.written = self.written, self.written + size
            after = self.written
        self.clock.moved(before, after)

    def run(self) -> None:
        """All threads until the limit is written."""
        clients = [threading.Thread(target=self.client, args=(number,)) for number in range(self.threads)]
        for client in clients:
            client.start()
        for client in clients:
            client.join()
        if self.failed:
            raise self.failed[0]

    def client(self, number: int) -> None:
        """One thread."""
        client = Client(self, random.Random(self.seed * 1000 + number))
        try:
            while self.written < self.limit and not self.failed:
                self.loop(client)
        except BaseException as error:
            self.failed.append(error)


class Client:
    """What a thread does to files: filebench's flowops."""

    def __init__(self, server: Server, draw: random.Random) -> None:
        self.server, self.files, self.draw = server, server.files, draw
        self.rotor = 0

    @contextmanager
    def existing(self) -> Iterator[Entry | None]:
        """The next file that exists."""
        with self.files.picked(True, self.rotor) as entry:
            if entry is None:
                self.server.left_out += 1
            else:
                self.rotor = entry.at + 1
            yield entry

    def delete(self) -> None:
        """deletefile."""
        with self.existing() as entry:
            if entry is not None:
                os.unlink(entry.path)
                self.files.moved(entry, False)

    def create(self, *steps: Callable[[int, Entry], None]) -> None:
        """createfile, what is done to it, closefile."""
        with self.files.picked(False, 0) as entry:
            if entry is None:
                self.server.left_out += 1
                return
            handle = os.open(entry.path, os.O_CREAT | os.O_RDWR)
            for step in steps:
                step(handle, entry)
            os.close(handle)
            self.files.moved(entry, True)

    def open(self, *steps: Callable[[int, Entry], None]) -> None:
        """openfile, what is done to it, closefile."""
        with self.existing() as entry:
            if entry is not None:
                handle = os.open(entry.path, os.O_RDWR)
                for step in steps:
                    step(handle, entry)
                os.close(handle)

    def append(self, handle: int, _: Entry) -> None:
        """appendfilerand."""
        os.lseek(handle, 0, os.SEEK_END)
        self.server.count(write(handle, self.draw.randrange(APPEND)))

    def write_whole(self, handle: int, entry: Entry) -> None:
        """writewholefile."""
        self.server.count(write(handle, entry.size))

    def stat(self) -> None:
        """statfile."""
        with self.existing() as entry:
            if entry is not None:
                os.stat(entry.path)


def varmail(client: Client) -> None:
    """A loop of varmail.f."""
    client.delete()
    client.create(client.append, sync)
    client.open(read_whole, client.append, sync)
    client.open(read_whole)


def fileserver(client: Client) -> None:
    """A loop of fileserver.f."""
    client.create(client.write_whole)
    client.open(client.append)
    client.open(read_whole)
    client.delete()
    client.stat()


def sync(handle: int, _: Entry) -> None:
    """fsync."""
    os.fsync(handle)


def read_whole(handle: int, _: Entry) -> None:
    """readwholefile."""
    os.lseek(handle, 0, os.SEEK_SET)
    while os.read(handle, MIB):
        pass


def write(handle: int, size: int) -> int:
    """Writes so many bytes in pieces of 1 MiB; returns how many."""
    left = size
    while left > 0:
        left -= os.write(handle, NOISE[: min(left, MIB)])
    return size


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("directory", type=Path)
    parser.add_argument("kind", choices=sorted(KINDS))
    parser.add_argument("--files", type=int, default=1000)
    parser.add_argument("--mean", type=int, default=0, help="size of a file (default: filebench's)")
    parser.add_argument("--writes", type=int, default=256 * MIB, help="bytes that the loops write (default: %(default)s)")
    parser.add_argument("--writeback", type=int, default=16 * MIB, help="bytes between syncs (default: %(default)s)")
    parser.add_argument("--commits", type=int, default=6, help="of the journal from one sync to the next (default: %(default)s)")
    parser.add_argument("--seed", type=int, default=1)
    args = parser.parse_args()
    clock = Clock(args.directory, args.writeback, args.commits)
    server = Server(args.directory, args.kind, args.files, args.mean, args.writes, clock, args.seed)
    server.run()
    print(f"{server.written} bytes written, {server.left_out} operations without a file", file=sys.stderr)
    return 0


if __name__ == "__main__":
    sys.exit(main())
