"""A program built again and again, a random third of its sources changed before each build, as in FAST'19, section 6.1.

Sources are generated, so object files are more alike than those of a kernel. The compiler's temporary files lie beside the
sources, and each compilation ends with a ``sync``, so that they reach the device before they are deleted.
``python builds.py DIRECTORY --help`` lists the settings. Exit code 1: a compilation failed.
"""

from __future__ import annotations

import argparse
import os
import random
import subprocess
import sys
from pathlib import Path


def source(number: int, functions: int, draw: random.Random) -> str:
    """A file of functions, with new random constants."""
    lines = ["#include <stdio.h>", "#include <stdlib.h>", "#include <string.h>"]
    for at in range(functions):
        a, b = draw.randrange(1 << 20), draw.randrange(1 << 20)
        lines.append(
            f'int f{number}_{at}(int x) {{ char s[64]; snprintf(s, sizeof s, "%d {a}", x); '
            f"for (int i = 0; i < {a % 7 + 2}; i++) x += s[i] * {b}; return x ^ (int) strlen(s); }}"
        )
    return "\n".join(lines) + "\n"


def build(directory: Path, files: int, functions: int, builds: int, seed: int) -> None:
    """Builds it so often in the directory."""
    draw = random.Random(seed)
    environment = {**os.environ, "TMPDIR": str(directory)}
    (directory / "main.c").write_text("int main(void) { return 0; }\n")

    def run(*command: str) -> None:
        subprocess.run(command, check=True, cwd=directory, env=environment)
        subprocess.run(("sync", "-f", str(directory)), check=True)

    run("gcc", "-g", "-c", "main.c")
    for round_number in range(builds):
        changed = range(files) if round_number == 0 else sorted(draw.sample(range(files), max(files // 3, 1)))
        for number in changed:
            (directory / f"f{number}.c").write_text(source(number, functions, draw))
        for number in changed:
            (directory / f"f{number}.o").unlink(missing_ok=True)
            run("gcc", "-O0", "-g", "-c", f"f{number}.c")
        run("gcc", "-g", "-o", "prog", *(f"f{number}.o" for number in range(files)), "main.o")


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("directory", type=Path)
    parser.add_argument("--files", type=int, default=24)
    parser.add_argument("--functions", type=int, default=300, help="in each file")
    parser.add_argument("--builds", type=int, default=20)
    parser.add_argument("--seed", type=int, default=1)
    args = parser.parse_args()
    try:
        build(args.directory, args.files, args.functions, args.builds, args.seed)
    except subprocess.CalledProcessError as error:
        print(f"{args.directory}: {error}", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
