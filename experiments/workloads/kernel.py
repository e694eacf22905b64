"""A Linux kernel built again and again, a random third of its sources touched before each build (FAST'19, section 6.1).

The sources are Debian's package `linux-source`, with the kernel's own smallest configuration (`tinyconfig`). They are unpacked once
and stay where they are; what the build writes, and the compiler's temporary files, go to a directory of its own. The workload takes
`cc` beside this file as the compiler, which ends each compilation with a sync: dependency files reach the device before they are deleted, as where a
build takes longer than writeback waits. Assembly files that gcc deletes itself do not.

``python kernel.py DIRECTORY --help`` lists the settings. Exit code 1: a build failed; the end of its output is printed.
"""

from __future__ import annotations

import argparse
import fcntl
import os
import random
import shutil
import subprocess
import sys
from pathlib import Path

#: Where Debian's packages `linux-source-VERSION` have their sources.
PACKED = "/usr/src/linux-source-*.tar.*"


def newest() -> Path | None:
    """The sources of the newest kernel that is installed."""
    found = Path("/").glob(PACKED.removeprefix("/"))
    return max(found, key=lambda path: [int(part) for part in path.name.split("-")[2].split(".") if part.isdigit()], default=None)


def unpacked(packed: Path, directory: Path) -> Path:
    """Its tree below the directory; unpacked if it is not there. Another call may do that at the same time."""
    directory.mkdir(parents=True, exist_ok=True)
    tree = directory / packed.name.partition(".tar")[0]
    with (directory / "lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not tree.exists():
            begun = directory / "begun"
            shutil.rmtree(begun, ignore_errors=True)
            begun.mkdir()
            subprocess.run(("tar", "--extract", "--file", packed, "--directory", begun), check=True)
            (begun / tree.name).rename(tree)
            begun.rmdir()
    return tree


def compiled(tree: Path, objects: Path) -> list[Path]:
    """The kernel's sources from which the objects were made; programs that the build itself runs are left out."""
    found = []
    for path in (at.relative_to(objects) for at in objects.rglob("*.o")):
        if not {"scripts", "tools"} & set(path.parts):
            found += [source for suffix in (".c", ".S") if (source := tree / path.with_suffix(suffix)).exists()]
    return sorted(found)


def make(tree: Path, objects: Path, compiler: Path, *words: str) -> None:
    """The kernel's make, with what would differ from run to run fixed."""
    fixed = {"KBUILD_BUILD_TIMESTAMP": "2000-01-01", "KBUILD_BUILD_USER": "user", "KBUILD_BUILD_HOST": "host", "TMPDIR": str(objects)}
    command = ("make", "-C", str(tree), f"O={objects}", f"CC={compiler}", "HOSTCC=gcc", "-j2", *words)
    done = subprocess.run(command, env={**os.environ, **fixed}, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, check=False)
    if done.returncode:
        raise RuntimeError("\n".join(done.stdout.splitlines()[-20:]))
    subprocess.run(("sync", "-f", str(objects)), check=True)


def build(tree: Path, objects: Path, compiler: Path, builds: int, seed: int) -> None:
    """So many builds in the directory: the first of everything."""
    draw = random.Random(seed)
    make(tree, objects, compiler, "tinyconfig")
    make(tree, objects, compiler, "bzImage")
    sources = compiled(tree, objects)
    for _ in range(builds - 1):
        for source in draw.sample(sources, len(sources) // 3):
            source.touch()
        make(tree, objects, compiler, "bzImage")


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("directory", type=Path)
    parser.add_argument("--builds", type=int, default=30)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--sources", type=Path, required=True, help="where to unpack the kernel's sources, 1.5 GB")
    parser.add_argument("--compiler", type=Path, default=Path("gcc"), help="(default: %(default)s)")
    args = parser.parse_args()
    packed = newest()
    if packed is None:
        print(f"there is no {PACKED}: apt install linux-source", file=sys.stderr)
        return 1
    try:
        args.directory.mkdir(exist_ok=True)
        build(unpacked(packed, args.sources.resolve()), args.directory.resolve(), args.compiler, args.builds, args.seed)
    except (RuntimeError, subprocess.CalledProcessError) as error:
        print(f"{args.directory}: {error}", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
