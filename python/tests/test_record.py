"""Recording: arguments and errors anywhere, a recording as root."""

from __future__ import annotations

import gc
import json
import shutil
import signal
import subprocess
import sys
import warnings
from pathlib import Path
from typing import Any

import pytest
from conftest import wait_for

import pcstream as pc
from pcstream._record import arguments_of


def program(directory: Path, script: str) -> Path:
    """A script in place of the program."""
    path = directory / "pcstream"
    path.write_text(script)
    path.chmod(0o755)
    return path


@pytest.mark.parametrize(
    "on,flags",
    [("scratch:2G", ["--size", "2G"]), ("scratch", []), ("/var/lib/x", ["--on", "/var/lib/x"])],
)
def test_the_place_becomes_flags_that_the_program_has(binary: str, on: str, flags: list[str]) -> None:
    arguments = arguments_of(["true", "{}"], "t.pctrace", on, True, ["--depth", "3"])
    expected = ["record", "--no-config", "-o", "t.pctrace", *flags, "--force", "--depth", "3", "--", "true", "{}"]
    assert arguments == expected
    help_text = subprocess.run([binary, "record", "--help"], capture_output=True, text=True, check=True).stdout
    assert all(flag in help_text for flag in arguments if flag.startswith("--") and flag != "--")


def test_overwrite_is_true_or_false() -> None:
    with pytest.raises(pc.ArgumentError, match="overwrite 'no': expected True or False"):
        arguments_of(["true"], "t.pctrace", "scratch", "no", [])  # type: ignore[arg-type]


def test_errors_say_what_to_do(tmp_path: Path, binary: str) -> None:
    with pytest.raises(pc.ArgumentError, match="expected a list of words"):
        pc.record("true", tmp_path / "t.pctrace")
    with pytest.raises(pc.RecordError, match="no such program.*PCSTREAM_BINARY"):
        pc.record(["true"], tmp_path / "t.pctrace", binary=tmp_path / "x")
    with pytest.raises(pc.ArgumentError, match="--on is given as on="):
        pc.record(["true"], tmp_path / "t.pctrace", options=["--on", "/"], binary=binary)
    with pytest.raises(pc.RecordError, match="record ended with 2: error: [^\n]*--no-such-flag[^\n]*$"):
        pc.record(["true"], tmp_path / "t.pctrace", options=["--no-such-flag"], binary=binary)


FAKE = """#!/bin/sh
echo a remark >&2
case $1-$EXISTS in record-yes) echo "error: t.pctrace: exists already; replace it with --force" >&2; exit 1;; esac
rm -rf t.pctrace
cp -rL "$TRACE" t.pctrace
exit 1
"""


def test_a_command_that_fails_was_recorded_all_the_same(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    fake = program(tmp_path, FAKE)
    monkeypatch.chdir(tmp_path)
    whole = json.loads((pc.datasets.load("sqlite").path / "meta.json").read_text())
    shutil.copytree(pc.datasets.load("sqlite").path, "failed")
    Path("failed", "meta.json").write_text(json.dumps(whole | {"exit": {"code": 5, "signal": None}}))
    monkeypatch.setenv("TRACE", "failed")
    with pytest.warns(pc.CommandWarning, match="t.pctrace: the recorded command failed, exit status 5"):
        trace = pc.record(["false"], "t.pctrace", binary=fake)
    assert trace.meta["exit"]["code"] == 5 and capsys.readouterr().err == "a remark\n"
    # The failed command of an earlier recording is no excuse.
    monkeypatch.setenv("EXISTS", "yes")
    with pytest.raises(pc.RecordError, match="ended with 1: error: t.pctrace: exists already; replace it with overwrite=True"):
        pc.record(["false"], "t.pctrace", binary=fake)


SMALL = """#!/bin/sh
while [ "$1" != -o ]; do shift; done
cp -rL "$TRACE" "$2"
"""


def test_a_recording_without_a_name_lives_as_long_as_its_object(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    fake = program(tmp_path, SMALL)
    sample = pc.datasets.load("sqlite")
    monkeypatch.setenv("TRACE", str(sample.path))
    monkeypatch.chdir(tmp_path)
    trace = pc.record(["true"], on="scratch:64M", binary=fake)
    directory = trace.path.parent
    assert trace.id == sample.id and directory != tmp_path
    # A table needs the trace's files after the last name of the trace is gone.
    events = trace.events()
    del trace
    assert events.to_arrow().num_rows == sample.meta["totals"]["events"]
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        del events
    assert not [str(one.message) for one in caught if str(directory) in str(one.message)]
    assert not directory.exists() and [file.name for file in tmp_path.iterdir()] == ["pcstream"]


def test_an_error_of_the_size_says_where_it_was_given(tmp_path: Path) -> None:
    fake = program(tmp_path, "#!/bin/sh\necho 'error: --size is 1, expected a multiple of 4096' >&2\nexit 2\n")
    with pytest.raises(pc.RecordError, match='multiple of 4096; --size is the SIZE of on="scratch:SIZE"$'):
        pc.record(["true"], on="scratch:1", binary=fake)


def test_a_whole_trace_stays_where_the_program_fails_after_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    fake = program(tmp_path, SMALL + "echo 'error: cannot unmount: target is busy' >&2\nexit 1\n")
    monkeypatch.setenv("TRACE", str(pc.datasets.load("sqlite").path))
    monkeypatch.setenv("TMPDIR", str(tmp_path))
    monkeypatch.setattr("tempfile.tempdir", None)
    said = r"record ended with 1: error: cannot unmount: target is busy; the trace is in (.*/recording\.pctrace)$"
    with pytest.raises(pc.RecordError, match=said) as caught:
        pc.record(["true"], on="scratch:64M", binary=fake)
    place = Path(str(caught.value).rpartition(" in ")[2])
    del caught
    gc.collect()
    assert place.is_relative_to(tmp_path) and pc.open(place).id == pc.datasets.load("sqlite").id
    with pytest.raises(pc.RecordError, match="the trace is in .*/named.pctrace$"):
        pc.record(["true"], tmp_path / "named.pctrace", binary=fake)


def test_recordings_without_a_name_live_until_a_sweep_has_simulated_them(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    fake = program(tmp_path, SMALL)
    monkeypatch.setenv("TRACE", str(pc.datasets.load("sqlite").path))
    monkeypatch.chdir(tmp_path)
    recordings = (pc.record(["true"], on="scratch:64M", binary=fake) for _ in range(2))
    assert len(pc.sweep(recordings, "baseline", pc.Device(gc="own"), executor="here")) == 2


#: The command leaves a daemon, which speaks when it may; whoever waits for it sees that after 30 s.
DAEMON = """#!/bin/sh
trap 'echo ended > ended; exit 130' INT
(n=0; while [ ! -e go ] && [ $n -lt 300 ]; do n=$((n + 1)); sleep 0.1; done; echo late >&2) &
echo a remark >&2
touch started
[ -z "$WAIT" ] || while :; do sleep 0.1; done
while [ "$1" != -o ]; do shift; done
cp -rL "$TRACE" "$2"
"""


def test_a_daemon_of_the_command_is_not_waited_for(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    fake = program(tmp_path, DAEMON)
    monkeypatch.setenv("TRACE", str(pc.datasets.load("sqlite").path))
    monkeypatch.chdir(tmp_path)
    assert pc.record(["true"], "t.pctrace", binary=fake).id == pc.datasets.load("sqlite").id
    said = capsys.readouterr().err
    assert said == "a remark\n", "the daemon waits still"
    Path("go").touch()
    wait_for("what the daemon says", lambda: "late" in capsys.readouterr().err)
    # The same after Ctrl-C.
    Path("go").unlink()
    Path("started").unlink()
    monkeypatch.setenv("WAIT", "yes")
    code = f"import pcstream as pc; pc.record(['true'], 'u.pctrace', binary={str(fake)!r})"
    recording = subprocess.Popen([sys.executable, "-c", code], stderr=subprocess.DEVNULL)
    wait_for("the program", Path("started").exists)
    recording.send_signal(signal.SIGINT)
    wait_for("the end", lambda: recording.poll() is not None)
    assert recording.returncode == -signal.SIGINT and Path("ended").exists()
    Path("go").touch()


def test_ctrl_c_while_the_program_starts_reaches_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    fake = program(tmp_path, DAEMON)
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("WAIT", "yes")
    Path("go").touch()

    class Started(subprocess.Popen[str]):
        def __init__(self, *words: Any, **given: Any) -> None:
            super().__init__(*words, **given)
            wait_for("the program", Path("started").exists)
            signal.raise_signal(signal.SIGINT)

    monkeypatch.setattr(subprocess, "Popen", Started)
    handler = signal.getsignal(signal.SIGINT)
    with pytest.raises(KeyboardInterrupt):
        pc.record(["true"], "t.pctrace", binary=fake)
    assert Path("ended").exists() and signal.getsignal(signal.SIGINT) is handler


#: The program is asked to stop, and waits until it is.
STOPPED = """#!/bin/sh
trap 'echo ended > ended; exit 130' INT
kill -s ALRM $PPID
while :; do sleep 0.1; done
"""


def test_whatever_ends_the_call_ends_the_program(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    fake = program(tmp_path, STOPPED)
    monkeypatch.chdir(tmp_path)

    def late(*_: object) -> None:
        raise TimeoutError("too late")

    before = signal.signal(signal.SIGALRM, late)
    try:
        with pytest.raises(TimeoutError, match="too late"):
            pc.record(["true"], "t.pctrace", binary=fake)
        assert Path("ended").exists() and signal.getsignal(signal.SIGALRM) is late
    finally:
        signal.signal(signal.SIGALRM, before)


def test_root_a_recording_is_opened(tmp_path: Path, recorder: str, capsys: pytest.CaptureFixture[str]) -> None:
    command = ["dd", "if=/dev/zero", "of={}/file", "bs=1M", "count=8", "conv=fsync"]
    options = ["--fill", "0.5"]
    trace = pc.record(command, tmp_path / "t.pctrace", on="scratch:64M", options=options, binary=recorder)
    assert trace.meta["totals"]["host_pages"] >= 2048
    contexts = trace.contexts().to_polars()
    assert any("dd" in executable for executable in contexts["executable"])
    with pytest.raises(pc.RecordError, match="exists already.*overwrite=True"):
        pc.record(["true"], tmp_path / "t.pctrace", on="scratch:64M", binary=recorder)
    with pytest.warns(pc.CommandWarning, match="t.pctrace: the recorded command failed, exit status 3"):
        failed = pc.record(
            ["sh", "-c", "echo hello >&2; dd if=/dev/zero of={}/f bs=4k count=3; exit 3"],
            tmp_path / "t.pctrace",
            on="scratch:64M",
            overwrite=True,
            options=options,
            binary=recorder,
        )
    assert failed.id != trace.id and "hello\n" in capsys.readouterr().err
