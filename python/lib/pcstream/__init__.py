"""Who causes write amplification, and what streams would save.

>>> import pcstream as pc
>>> trace = pc.open("db.pctrace")
>>> trace.contexts().to_pandas()
>>> r = pc.simulate(trace, ["baseline", "pcstream"], pc.Device.profile("pm963-480g").scaled(trace))
>>> r.to_polars(); r.plot.waf(); r["pcstream"].streams
"""

from . import datasets
from ._device import Device, profiles
from ._errors import (
    ArgumentError,
    CommandWarning,
    DeviceError,
    Error,
    LossWarning,
    MissingPackageError,
    NotEnoughMemoryError,
    PcstreamWarning,
    ProgramError,
    RecordError,
    RemoteError,
    SimulationError,
    SizeWarning,
    SweepError,
    SweepWarning,
    TraceError,
    TraceNotFoundError,
)
from ._pcstream import __version__
from ._plot import Plot, SweepPlot
from ._program import advise, compare, extract, import_trace, merge, report
from ._record import record
from ._result import Result
from ._scheme import HINTS, KINDS, OPS, Batch, Parameter, Scheme, SchemeInfo, schemes
from ._simulate import DEFAULT_SCHEMES, Results, simulate
from ._sweep import Failure, Sweep, sweep
from ._table import Table
from ._trace import Trace, generate, open  # noqa: A004
from ._write import write

__all__ = [
    "DEFAULT_SCHEMES",
    "HINTS",
    "KINDS",
    "OPS",
    "ArgumentError",
    "Batch",
    "CommandWarning",
    "Device",
    "DeviceError",
    "Error",
    "Failure",
    "LossWarning",
    "MissingPackageError",
    "NotEnoughMemoryError",
    "Parameter",
    "PcstreamWarning",
    "Plot",
    "ProgramError",
    "RecordError",
    "RemoteError",
    "Result",
    "Results",
    "Scheme",
    "SchemeInfo",
    "SimulationError",
    "SizeWarning",
    "Sweep",
    "SweepError",
    "SweepPlot",
    "SweepWarning",
    "Table",
    "Trace",
    "TraceError",
    "TraceNotFoundError",
    "__version__",
    "advise",
    "compare",
    "datasets",
    "extract",
    "generate",
    "import_trace",
    "merge",
    "open",
    "profiles",
    "record",
    "report",
    "schemes",
    "simulate",
    "sweep",
    "write",
]
