"""The command: records what figures need, and makes figures."""

from __future__ import annotations

import argparse
import signal
import subprocess
import sys
import time
from pathlib import Path

import pcstream as pc

from . import published, saved
from .figures import FIGURES
from .lab import Lab, publish
from .workloads import all_of


def main() -> int:
    """Exit code 1: a figure failed; 3: it is there, but something is left out or was lost."""
    parser = argparse.ArgumentParser(prog="python -m experiments", description=__doc__)
    parser.add_argument("names", nargs="*", metavar="NAME", help="figures, or all")
    parser.add_argument("--list", action="store_true", help="list figures and workloads")
    parser.add_argument("--quick", action="store_true", help="small sizes: all of it in some fifteen minutes")
    parser.add_argument("--out", type=Path, default=Path("experiments/out"), help="recordings and results (default: %(default)s)")
    parser.add_argument("--recordings", type=int, help="of each workload (default: 1 with --quick, else 3)")
    parser.add_argument("--recorded", action="store_true", help="record nothing: take the recordings that there are")
    parser.add_argument("--again", action="store_true", help="make figures again whose saved result has the same build, code and recordings")
    parser.add_argument("--publish", action="store_true", help="copy whole results to docs/results, and renew its tables")
    args = parser.parse_args()
    # What is mounted is unmounted, as after Ctrl-C.
    signal.signal(signal.SIGTERM, lambda number, _: sys.exit(128 + number))
    workloads = all_of(args.quick)
    if args.list or not args.names:
        for name, module in FIGURES.items():
            print(f"{name:20} {module.ABOUT}")
        print()
        for workload in workloads.values():
            lacks = "".join(f"; lacks {program}" for program in workload.missing())
            print(f"{workload.name:20} {workload.about}, {workload.fs} of {workload.size}{lacks}")
        return 0
    names = list(FIGURES) if args.names == ["all"] else args.names
    unknown = [name for name in names if name not in FIGURES]
    if unknown:
        parser.error(f"{unknown[0]!r} is no figure: expected all, or some of {', '.join(FIGURES)}")
    if args.publish and args.quick:
        parser.error("--publish: expected full sizes, so leave --quick away")
    recordings = (1 if args.quick else 3) if args.recordings is None else args.recordings
    if recordings < 1:
        parser.error(f"--recordings {recordings}: expected at least 1")
    lab = Lab(args.out, args.quick, recordings, workloads, not args.recorded)
    lab.publishes = args.publish
    failed = False
    for name in names:
        began = time.monotonic()
        try:
            kept = None if args.again else saved.keep(lab, name)
            if kept is not None:
                print(f"{kept}: kept")
                if args.publish:
                    publish(kept.with_suffix(".csv"))
                continue
            lab.begin()
            path = saved.write(lab, FIGURES[name].make(lab))
            print(f"{path}: {time.monotonic() - began:.0f} s")
        except (pc.Error, OSError, subprocess.SubprocessError) as error:
            failed = True
            print(f"{name}: {error}", file=sys.stderr)
    for fault in published.renew() if args.publish else ():
        failed |= not published.is_unpublished(fault)
        print(fault, file=sys.stderr)
    return 1 if failed else 3 if lab.left_out or lab.had_losses else 0


if __name__ == "__main__":
    sys.exit(main())
