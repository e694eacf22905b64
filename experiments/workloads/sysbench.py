"""MariaDB under sysbench's oltp_write_only, for as many transactions as asked for.

A transaction updates two rows, one of them with an index, deletes a row and inserts it again; keys have sysbench's default
distribution (``special``: most of them within a small part of the table). InnoDB has few buffers and a small log, so rows reach
the device. Writers wait for old versions of rows to be purged, or the space that these take would depend on how busy the machine
is. ``python sysbench.py DIRECTORY --help`` lists the settings. Exit code 1: a program failed; its output is said.
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path

#: Seconds for the server to answer; it makes its files at the first start.
PATIENCE = 120


class Failed(Exception):
    """A program failed; the message has its last lines."""


def run(*command: str) -> None:
    """One program to its end."""
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode:
        raise Failed(f"{command[0]} ended with {done.returncode}: {(done.stderr or done.stdout)[-2000:].strip()}")


def database(directory: Path, buffers: int) -> list[str]:
    """Makes an empty database; returns the command of its server."""
    data = directory / "data"
    data.mkdir()
    shared = [f"--datadir={data}", "--innodb-log-file-size=8M"]
    # Nobody but root can run a server as somebody else, and root must say as whom.
    user = ["--user=root"] if os.geteuid() == 0 else []
    run("mariadb-install-db", "--no-defaults", *user, *shared, "--skip-test-db", "--auth-root-authentication-method=normal")
    return [
        "mariadbd", "--no-defaults", *user, *shared, f"--innodb-buffer-pool-size={buffers}M", "--innodb-flush-log-at-trx-commit=0",
        "--innodb-io-capacity=1000", "--aria-log-file-size=8M", "--innodb-max-purge-lag=100", "--innodb-max-purge-lag-delay=10000",
        "--skip-networking",
    ]  # fmt: skip


def wait_for(server: subprocess.Popen[bytes], client: list[str]) -> None:
    """Until the server answers."""
    until = time.monotonic() + PATIENCE
    while subprocess.run([*client, "-e", "select 1"], capture_output=True, check=False).returncode:
        if server.poll() is not None or time.monotonic() > until:
            raise Failed(f"mariadbd does not answer, exit code {server.poll()}")
        time.sleep(0.2)


def bench(directory: Path, rows: int, transactions: int, buffers: int, seed: int) -> None:
    """Loads the table and runs the transactions."""
    # The path of a socket may have 107 bytes.
    with tempfile.TemporaryDirectory(prefix="pcstream-") as place:
        socket = f"{place}/socket"
        client = ["mariadb", "--no-defaults", "--user=root", f"--socket={socket}"]
        sysbench = [
            "sysbench", "oltp_write_only", "--db-driver=mysql", f"--mysql-socket={socket}", "--mysql-user=root", "--threads=1",
            f"--table-size={rows}", f"--events={transactions}", "--time=0", f"--rand-seed={seed}",
        ]  # fmt: skip
        with (Path(place) / "log").open("wb") as log, subprocess.Popen(
            [*database(directory, buffers), f"--socket={socket}"], stdout=log, stderr=log
        ) as server:
            try:
                wait_for(server, client)
                run(*client, "-e", "create database sbtest")
                run(*sysbench, "prepare")
                run(*sysbench, "run")
                run(*client, "-e", "shutdown")
            except BaseException:
                server.kill()
                raise
        if server.returncode:
            raise Failed(f"mariadbd ended with {server.returncode}")


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("directory", type=Path)
    parser.add_argument("--rows", type=int, default=100_000)
    parser.add_argument("--transactions", type=int, default=30_000)
    parser.add_argument("--buffers", type=int, default=6, help="MiB of InnoDB's buffers (default: %(default)s)")
    parser.add_argument("--seed", type=int, default=1)
    args = parser.parse_args()
    try:
        bench(args.directory, args.rows, args.transactions, args.buffers, args.seed)
    except Failed as error:
        print(f"{args.directory}: {error}", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
