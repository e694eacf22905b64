"""The papers' experiments: workloads are recorded, simulated and drawn, with the papers' numbers beside ours.

    python -m experiments --list
    python -m experiments --quick all

See README.md here. It needs the package ``pcstream`` with matplotlib, the program ``pcstream``, and root for recordings.
"""
