"""The drivers of the experiments' workloads: what they write, and what their recordings depend on."""

from __future__ import annotations

import importlib
import importlib.util
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

ROOT = Path(__file__).resolve().parents[2]


@pytest.fixture(name="experiments")
def _experiments(monkeypatch: pytest.MonkeyPatch) -> Any:
    monkeypatch.syspath_prepend(str(ROOT))
    return importlib.import_module("experiments.figures")


@pytest.mark.parametrize(("kind", "directories"), [("varmail", 1), ("fileserver", 20)])
def test_servers_delete_as_many_files_as_they_make(tmp_path: Path, kind: str, directories: int) -> None:
    driver = ROOT / "experiments" / "workloads" / "filebench.py"
    settings = ("--files", "400", "--mean", "4096", "--writes", "6000000", "--writeback", "1000000", "--commits", "3")
    command = [sys.executable, str(driver), str(tmp_path), kind, *settings]
    said = subprocess.run(command, check=True, capture_output=True, text=True).stderr
    found = re.fullmatch(r"(\d+) bytes written, 0 operations without a file\n", said)
    assert found and int(found[1]) >= 6_000_000
    folder = tmp_path / "bigfileset"
    files = [path for path in folder.rglob("f*") if path.is_file()]
    assert len(files) == 320
    # Files are deleted in turn, so a directory may have none at the end.
    made = {folder, *(path for path in folder.rglob("d*") if path.is_dir())}
    assert len(made) == directories and {path.parent for path in files} <= made


@pytest.mark.skipif(shutil.which("gcc") is None, reason="needs gcc")
def test_builds_depend_on_the_seed_alone(tmp_path: Path) -> None:
    driver = ROOT / "experiments" / "workloads" / "builds.py"
    texts = []
    for at, seed in enumerate(("1", "1", "2")):
        directory = tmp_path / str(at)
        directory.mkdir()
        settings = ("--files", "3", "--functions", "2", "--builds", "2", "--seed", seed)
        subprocess.run([sys.executable, str(driver), str(directory), *settings], check=True)
        subprocess.run([str(directory / "prog")], check=True)
        texts.append([(directory / f"f{number}.c").read_text() for number in range(3)])
    assert texts[0] == texts[1] != texts[2]


#: As the kernel's: `O` is where the build writes, and the program in `scripts` is the build's own.
MAKEFILE = """\
names = a b c d e f scripts/own
tinyconfig: ; mkdir -p $(O)/scripts && touch $(O)/.config
bzImage: $(O)/image
$(O)/image: $(names:%=$(O)/%.o) ; echo $(words $?) >> $(O)/made; cat $^ > $@
$(O)/%.o: %.c ; $(CC) -c -o $@ $<
"""


@pytest.mark.skipif(not all(map(shutil.which, ("gcc", "make"))), reason="needs gcc and make")
def test_a_third_of_a_kernel_is_compiled_again(tmp_path: Path) -> None:
    kernel = load(ROOT / "experiments" / "workloads" / "kernel.py")
    packed = tmp_path / "linux-source-6.1.tar.gz"
    tree = tmp_path / "linux-source-6.1"
    (tree / "scripts").mkdir(parents=True)
    (tree / "Makefile").write_text(MAKEFILE)
    for name in (*"abcdef", "scripts/own"):
        (tree / f"{name}.c").write_text("int x;")
        os.utime(tree / f"{name}.c", (0, 0))
    subprocess.run(("tar", "--create", "--gzip", "--file", packed, "--directory", tmp_path, tree.name), check=True)
    found = kernel.unpacked(packed, tmp_path / "sources")
    assert found == kernel.unpacked(packed, tmp_path / "sources") == tmp_path / "sources" / tree.name
    objects = tmp_path / "objects"
    objects.mkdir()
    compiler = ROOT / "experiments" / "workloads" / "cc"
    kernel.build(found, objects, compiler, 3, 1)
    assert (objects / "made").read_text().split() == ["7", "2", "2"]
    assert [path.name for path in kernel.compiled(found, objects)] == [f"{name}.c" for name in "abcdef"]
    (found / "a.c").write_text("no C")
    with pytest.raises(RuntimeError, match="a.c"):
        kernel.make(found, objects, compiler, "bzImage")


def test_a_recording_depends_on_the_drivers_of_mixed_workloads(experiments: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    mixed = importlib.import_module("experiments.workloads.mixed")
    module = importlib.import_module("experiments.workload")

    def digest(directory: str, text: str) -> str:
        """Of a workload whose driver lies in a checkout."""
        driver = tmp_path / directory / "driver.py"
        driver.parent.mkdir(exist_ok=True)
        driver.write_text(text)
        monkeypatch.setattr(module, "ROOT", driver.parent)
        return str(module.Workload("m", "", mixed.together((str(driver), "{}"), ("true",)), "64M", 0.5, ()).digest(1))

    first = digest("a", "one")
    assert digest("a", "another") != first
    assert digest("b", "one") == first, "where the checkout lies is not part of it"
    source = tmp_path / "Load.java"
    source.write_text("one")
    workload = module.Workload("m", "", ("load",), "64M", 0.5, (), sources=(source,))
    compiled = workload.digest(1)
    source.write_text("another")
    assert workload.digest(1) != compiled


def test_builds_of_a_mixed_workload_go_on_until_the_database_has_ended(experiments: Any, tmp_path: Path) -> None:
    mixed = importlib.import_module("experiments.workloads.mixed")
    build = ("sh", "-c", "echo $1 >> {}/builds", "build", "{number}")

    def ends(directory: Path, database: str, build: tuple[str, ...]) -> int:
        directory.mkdir()
        words = mixed.together(("sh", "-c", database), build)
        return subprocess.run([word.replace("{}", str(directory)).replace("{number}", "5") for word in words], check=False).returncode

    third = "until grep -qs 53 {}/builds; do sleep 0.01; done"
    assert ends(tmp_path / "a", third, build) == 0
    assert (tmp_path / "a" / "builds").read_text().split()[:3] == ["51", "52", "53"]
    assert ends(tmp_path / "b", f"{third}; false", build) == 1, "the database fails"
    assert ends(tmp_path / "c", "until [ -e {}/failed ]; do sleep 0.01; done", ("sh", "-c", "touch {}/failed; false")) == 1


def test_the_size_of_a_tree_in_lmdb_is_steady(tmp_path: Path) -> None:
    lmdb = pytest.importorskip("lmdb")
    driver = ROOT / "experiments" / "workloads" / "lmdb_updates.py"
    command = [sys.executable, str(driver), str(tmp_path), "--rows", "2000", "--transactions", "300", "--each", "8"]
    said = subprocess.run(command, check=True, capture_output=True, text=True).stderr
    found = re.fullmatch(r"(\d+) pages after loading, (\d+) at the end, 2400 updates\n", said)
    assert found and int(found[2]) < 1.5 * int(found[1])
    module = load(driver)
    with lmdb.open(str(tmp_path)) as env:
        assert env.stat()["entries"] == 2000
        assert len(module.wrong(env, [-1] * 2000, 400)) == 2000, "rows that are not the last ones are found"


@pytest.mark.skipif(not all(map(shutil.which, ("mariadbd", "sysbench"))), reason="needs mariadbd and sysbench")
def test_sysbench_fails_where_its_server_does(tmp_path: Path) -> None:
    driver = ROOT / "experiments" / "workloads" / "sysbench.py"
    command = [sys.executable, str(driver), str(tmp_path), "--rows", "500", "--transactions", "20"]
    subprocess.run(command, check=True)
    assert (tmp_path / "data" / "sbtest" / "sbtest1.ibd").stat().st_size > 100_000
    shutil.rmtree(tmp_path / "data")
    module = load(driver)
    with pytest.raises(module.Failed, match="sysbench ended with 1"):
        module.bench(tmp_path, 500, 20, 6, "no number")


def load(script: Path) -> Any:
    """A driver as a module."""
    spec = importlib.util.spec_from_file_location(script.stem, script)
    assert spec and spec.loader
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module
