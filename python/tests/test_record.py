"""Recording: arguments and errors anywhere, a recording as root."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

import pytest

import pcstream as pc
from pcstream._record import arguments_of


@pytest.mark.parametrize(
    "on,flags",
    [("scratch:2G", ["--size", "2G"]), ("scratch", []), ("/var/lib/x", ["--on", "/var/lib/x"])],
)
def test_the_place_becomes_flags_that_the_program_has(binary: str, on: str, flags: list[str]) -> None:
    arguments = arguments_of(["true", "{}"], "t.pctrace", on, True, ["--depth", "3"])
    assert arguments == ["record", "-o", "t.pctrace", *flags, "--force", "--depth", "3", "--", "true", "{}"]
    help_text = subprocess.run([binary, "record", "--help"], capture_output=True, text=True, check=True).stdout
    assert all(flag in help_text for flag in arguments if flag.startswith("--") and flag != "--")


def test_errors_say_what_to_do(tmp_path: Path, binary: str) -> None:
    with pytest.raises(pc.ArgumentError, match="expected a list of words"):
        pc.record("true", tmp_path / "t.pctrace")
    with pytest.raises(pc.RecordError, match="no such program.*PCSTREAM_BINARY"):
        pc.record(["true"], tmp_path / "t.pctrace", binary=tmp_path / "x")
    with pytest.raises(pc.RecordError, match="record ended with 2: .*--no-such-flag"):
        pc.record(["true"], tmp_path / "t.pctrace", options=["--no-such-flag"], binary=binary)


def test_root_a_recording_is_opened(tmp_path: Path, binary: str) -> None:
    if os.geteuid() != 0:
        pytest.skip("a recording needs root")
    if "without" in subprocess.run([binary, "doctor"], capture_output=True, text=True, check=False).stderr:
        pytest.skip("the program was built without capture")
    command = ["dd", "if=/dev/zero", "of={}/file", "bs=1M", "count=8", "conv=fsync"]
    trace = pc.record(command, tmp_path / "t.pctrace", on="scratch:64M", options=["--fill", "0.5"], binary=binary)
    assert trace.meta["totals"]["host_pages"] >= 2048
    contexts = trace.contexts().to_polars()
    assert any("dd" in executable for executable in contexts["executable"])
