"""The timing model beside MQSim (FAST'18): random reads and writes of a flash page, at low and at high load.

Both models have the same flash: 8 channels, 1 to 8 dies on each, pages of 8 KiB, and the times of MQSim's own configuration.
Requests are closed loops of several depths. Nothing is cached, and no garbage is collected. MQSim is no part of this project:
https://github.com/CMU-SAFARI/MQSim, made with its own Makefile. ``MQSIM=DIR`` says where it is.

Each die is a chip of one plane for MQSim. It keeps one die of a chip busy at a time, and programs two planes together only where
both have a page of the same number to write; the model has neither limit.
"""

from __future__ import annotations

import os
import re
import subprocess
import tempfile
import warnings
from pathlib import Path
from xml.etree import ElementTree

import numpy as np
import pcstream as pc

from ..lab import Lab, Table
from ..pictures import curves

NAME = "mqsim"
ABOUT = "the timing model beside MQSim: reads and writes at low and high load (needs MQSIM=DIR)"
DEPTHS = (1, 4, 16, 64, 256, 1024)
CHANNELS = 8
DIES = (1, 2, 8)
#: Pages of 8 KiB in a block, and blocks of all dies of a channel together.
BLOCK_PAGES, BLOCKS = 256, 1024
#: Pages of 4 KiB that the host can address.
LOGICAL_PAGES = int(CHANNELS * BLOCKS * BLOCK_PAGES * 2 * 0.93)
#: Of MQSim's ssdconfig.xml; 4 KiB at 333 MB/s. It has no fixed time for each command, but its bus and its host interface have.
TIMES = {"read_ns": 75_000, "program_ns": 750_000, "erase_ns": 3_800_000, "transfer_ns": 12_300, "command_ns": 2_400}


def make(lab: Lab) -> Table:
    """A row for each number of dies, kind of request and queue depth."""
    columns = ("dies a channel", "requests", "queue depth", "MQSim, IOPS", "here, IOPS", "ratio", "MQSim, mean us", "here, mean us")
    table = Table(NAME, "The timing model beside MQSim", columns)
    home = Path(os.environ.get("MQSIM", ""))
    if not os.environ.get("MQSIM") or not (home / "MQSim").is_file():
        lab.leave_out(NAME, "MQSIM=DIR does not name a directory with a built MQSim (https://github.com/CMU-SAFARI/MQSim)")
        return table
    lines: dict[str, tuple[list[float], list[float]]] = {}
    with tempfile.TemporaryDirectory(prefix="pcstream-") as folder:
        for op in ("read", "write"):
            trace = random_requests(Path(folder) / f"{op}.pctrace", op, 40_000 if lab.quick else 400_000)
            for dies in DIES:
                for depth in DEPTHS:
                    theirs, ours = by_mqsim(home, Path(folder), op, dies, depth), by_model(trace, op, dies, depth)
                    table.rows.append(
                        (dies, op, depth, round(theirs[0]), round(ours[0]), ours[0] / theirs[0], round(theirs[1]), round(ours[1]))
                    )
                    for who, found in (("MQSim", theirs), ("here", ours)):
                        xs, ys = lines.setdefault(f"{op}s, {dies} dies: {who}", ([], []))
                        xs.append(depth)
                        ys.append(found[0] / 1000)
    table.remarks += [
        "Closed loops of random requests of 8 KiB, without a cache and without garbage collection. A write is complete when it is "
        "programmed.",
        f"The most reads that dies can sense and channels can send: {bounds()}. MQSim sends data before it begins reads, so the dies "
        "of a busy channel work in rounds; here a die begins its next read while others send.",
        "MQSim's addresses decide which die is written, so random writes wait for busy dies. Here dies are written in turn.",
    ]
    table.picture = lambda path: curves(path, {k: v for k, v in lines.items() if k.startswith("reads")}, "queue depth", "1000 IOPS")
    return table


def bounds() -> str:
    """Reads a second at most: with a channel that always sends, and with one that works in rounds."""
    read, send = TIMES["read_ns"], 2 * TIMES["transfer_ns"]
    return "; ".join(
        f"{dies} dies a channel: {CHANNELS * 1e9 * min(dies / (read + send), 1 / send):.0f}, or "
        f"{CHANNELS * 1e9 * dies / (read + dies * send):.0f} if dies begin only when all have sent"
        for dies in DIES
    )


def random_requests(path: Path, op: str, count: int) -> pc.Trace:
    """A trace of random requests of one flash page to a device that is full for reads, and empty for writes."""
    lba = np.random.default_rng(1).integers(0, LOGICAL_PAGES // 2, count) * 2
    events = {"lba": lba, "pages": np.full(count, 2), "op": np.full(count, op)}
    return pc.write(path, events, device_pages=LOGICAL_PAGES, prefilled_pages=LOGICAL_PAGES if op == "read" else 0)


def by_model(trace: pc.Trace, op: str, dies: int, depth: int) -> tuple[float, float]:
    """IOPS and the mean latency in microseconds, of ours."""
    # Of writes, as many are being programmed as are in the buffer.
    buffer, outstanding = (2, depth) if op == "read" else (2 * depth, 1)
    timing = {**TIMES, "channels": CHANNELS, "dies_per_channel": dies, "pages_per_program": 2, "buffer_pages": buffer}
    superblock = CHANNELS * dies * BLOCK_PAGES * 2
    device = pc.Device(logical_pages=LOGICAL_PAGES, superblock_pages=superblock, spare_factor=0.07, streams=1, gc="own", timing=timing)
    with warnings.catch_warnings():
        # Too little is written to say anything of garbage collection, which is meant.
        warnings.simplefilter("ignore", pc.SizeWarning)
        result = pc.simulate(trace, "baseline", device, timing=True, queue_depth=outstanding)["baseline"]
    return result.iops, depth * result.latency_us[op]["mean"] / outstanding


def by_mqsim(home: Path, folder: Path, op: str, dies: int, depth: int) -> tuple[float, float]:
    """The same of MQSim, over a simulated second."""
    chips = {"Chip_No_Per_Channel": dies, "Die_No_Per_Chip": 1, "Plane_No_Per_Die": 1, "Block_No_Per_Plane": BLOCKS // dies}
    config = replaced((home / "ssdconfig.xml").read_text(), {**chips, "Ideal_Mapping_Table": "true"})
    flow = {
        "Chip_IDs": ",".join(map(str, range(dies))), "Die_IDs": 0, "Plane_IDs": 0, "Device_Level_Data_Caching_Mode": "TURNED_OFF",
        "Initial_Occupancy_Percentage": 0, "Working_Set_Percentage": 100, "Read_Percentage": 100 if op == "read" else 0,
        "Address_Alignment_Unit": 16, "Average_Request_Size": 16, "Average_No_of_Reqs_in_Queue": depth, "Stop_Time": 10**9,
    }  # fmt: skip
    shipped = re.search(r"<(IO_Flow_Parameter_Set_Synthetic)>.*?</\1>", (home / "workload.xml").read_text(), re.DOTALL)
    if shipped is None:
        raise pc.ArgumentError(f"{home}/workload.xml has no IO_Flow_Parameter_Set_Synthetic: is this MQSim?")
    scenario = f"<MQSim_IO_Scenarios><IO_Scenario>{replaced(shipped.group(), flow)}</IO_Scenario></MQSim_IO_Scenarios>"
    (folder / "ssd.xml").write_text(config)
    (folder / "load.xml").write_text(f'<?xml version="1.0" encoding="us-ascii"?>\n{scenario}')
    command = [home / "MQSim", "-i", folder / "ssd.xml", "-w", folder / "load.xml"]
    # It waits for a key when it has ended.
    subprocess.run(command, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, check=True)
    found = ElementTree.parse(folder / "load_scenario_1.xml").getroot()
    number = {name: float(found.findtext(f".//Host.IO_Flow/{name}") or "nan") for name in ("Request_Count", "Device_Response_Time")}
    # Those that are outstanding when the second ends are counted, too.
    return number["Request_Count"] - depth, number["Device_Response_Time"]


def replaced(text: str, values: dict[str, object]) -> str:
    """A configuration of MQSim with other values of some settings."""
    for name, value in values.items():
        text, count = re.subn(rf"<{name}>[^<]*</{name}>", f"<{name}>{value}</{name}>", text)
        if count != 1:
            raise pc.ArgumentError(f"MQSim's configuration has {name} {count} times: expected once")
    return text
