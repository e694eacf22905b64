"""What several tests need: a small generated trace, and the program, if it is built."""

from __future__ import annotations

import os
import shutil
import subprocess
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

import pcstream as pc

ROOT = Path(__file__).resolve().parents[2]
# Seconds. Nothing that a test waits for takes this long, however busy the machine is.
PATIENCE = 300


def wait_for(what: str, is_there: Callable[[], bool]) -> None:
    """Waits until something is there."""
    end = time.monotonic() + PATIENCE
    while not is_there():
        assert time.monotonic() < end, what
        time.sleep(0.02)


@pytest.fixture(scope="session", autouse=True)
def cache(tmp_path_factory: pytest.TempPathFactory) -> None:
    """Nothing is left in the user's cache."""
    os.environ["PCSTREAM_CACHE"] = str(tmp_path_factory.mktemp("cache"))
    os.environ["MPLBACKEND"] = "Agg"


@pytest.fixture(scope="session", autouse=True)
def environment() -> Iterator[None]:
    """Neither the user's defaults nor the user's colours hold for the program."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("XDG_CONFIG_HOME", "/proc/none")
        for name in ("CLICOLOR", "CLICOLOR_FORCE", "NO_COLOR"):
            patch.delenv(name, raising=False)
        yield


@pytest.fixture(scope="session")
def small(tmp_path_factory: pytest.TempPathFactory) -> pc.Trace:
    """Hot and cold pages: 65,536 writes to 8,192 pages."""
    path = tmp_path_factory.mktemp("traces") / "small.pctrace"
    return pc.generate("hotcold", path, pages=8192, writes=65536, seed=3)


@pytest.fixture(scope="session")
def binary() -> str:
    """The program ``pcstream`` of this checkout."""
    target = Path(os.environ.get("CARGO_TARGET_DIR") or ROOT / "target")
    given = os.environ.get("PCSTREAM_BINARY")
    # What was named must be there: another program instead would be tested in its place.
    candidates = [given] if given else [target / "debug" / "pcstream", target / "release" / "pcstream"]
    for candidate in candidates:
        found = shutil.which(str(candidate))
        if found:
            return found
    if given:
        pytest.fail(f"PCSTREAM_BINARY: there is no program {given}")
    pytest.skip("the program pcstream is not built: run cargo build, or set PCSTREAM_BINARY")


@pytest.fixture(scope="session")
def recorder(binary: str) -> str:
    """The same, where it can record."""
    if os.geteuid() != 0:
        pytest.skip("a recording needs root: run the tests as root")
    if "without" in subprocess.run([binary, "doctor"], capture_output=True, text=True, check=False).stderr:
        pytest.skip("the program was built without capture: build it with --features capture")
    return binary
