"""Random updates of a B-tree in LMDB, whose size stays the same: rows are loaded, then replaced by rows of the same length.

LMDB copies each page on the way from the root to a changed leaf, and takes pages that the last transactions freed. Keys are
chosen evenly, and each commit reaches the device (``fdatasync``). ``python lmdb_updates.py DIRECTORY --help`` lists the
settings. Exit code 1: a row is missing, or is not the one that was written last.
"""

from __future__ import annotations

import argparse
import random
import sys

import lmdb

#: Bytes of the number at the beginning of a row, which counts its updates.
COUNT = 8


def key(number: int) -> bytes:
    """Keys are as long as a hash and follow no order of insertion."""
    return random.Random(number).randbytes(16)


def load(env: lmdb.Environment, rows: int, value: int, draw: random.Random) -> None:
    """In transactions of 1,000 rows, in an order of chance."""
    numbers = list(range(rows))
    draw.shuffle(numbers)
    for first in range(0, rows, 1000):
        with env.begin(write=True) as transaction:
            for number in numbers[first : first + 1000]:
                transaction.put(key(number), bytes(COUNT) + draw.randbytes(value - COUNT))


def update(env: lmdb.Environment, rows: int, value: int, transactions: int, each: int, draw: random.Random) -> list[int]:
    """Replaces rows; returns how often each was replaced."""
    updates = [0] * rows
    for _ in range(transactions):
        with env.begin(write=True) as transaction:
            for number in draw.sample(range(rows), each):
                updates[number] += 1
                transaction.put(key(number), updates[number].to_bytes(COUNT, "big") + draw.randbytes(value - COUNT))
    return updates


def wrong(env: lmdb.Environment, updates: list[int], value: int) -> list[str]:
    """What is not as it was written."""
    found = []
    with env.begin() as transaction:
        if env.stat()["entries"] != len(updates):
            found.append(f"{env.stat()['entries']} rows, expected {len(updates)}")
        for number, count in enumerate(updates):
            row = transaction.get(key(number), b"")
            if len(row) != value or int.from_bytes(row[:COUNT], "big") != count:
                found.append(f"row {number} is not that of its update {count}")
    return found


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("directory")
    parser.add_argument("--rows", type=int, default=60_000)
    parser.add_argument("--value", type=int, default=400, help="bytes of a row (default: %(default)s)")
    parser.add_argument("--transactions", type=int, default=10_000)
    parser.add_argument("--each", type=int, default=16, help="rows that a transaction replaces (default: %(default)s)")
    parser.add_argument("--map-mib", type=int, default=1024, help="greatest size of the database (default: %(default)s)")
    parser.add_argument("--seed", type=int, default=1)
    args = parser.parse_args()
    draw = random.Random(args.seed)
    with lmdb.open(args.directory, map_size=args.map_mib << 20) as env:
        load(env, args.rows, args.value, draw)
        loaded = env.info()["last_pgno"] + 1
        updates = update(env, args.rows, args.value, args.transactions, args.each, draw)
        faults = wrong(env, updates, args.value)
        pages = env.info()["last_pgno"] + 1
    print(f"{loaded} pages after loading, {pages} at the end, {sum(updates)} updates", file=sys.stderr)
    for fault in faults[:10]:
        print(f"{args.directory}: {fault}", file=sys.stderr)
    return 1 if faults else 0


if __name__ == "__main__":
    sys.exit(main())
