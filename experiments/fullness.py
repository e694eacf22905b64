"""How full a simulated drive is.

A file system spreads what it allocates, so most addresses of a recording hold data for a part of the time. With discards a drive
whose addresses are 98 % used is about half empty. So with discards the data that lives at once counts, at its most; without
discards, what was written stays, and addresses count.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from .lab import UTILISATION

#: A sentence for remarks, after ``lab.conditions()``.
BY_LIVE_DATA = "With discards, the data that lives at once fills as much of it, at most."


def filled(discard: bool, share: float = UTILISATION) -> dict[str, Any]:
    """Arguments of ``Lab.simulate``, with or without discards."""
    return {"utilisation": None, "pack_live": share} if discard else {"utilisation": share, "discard": False}


def no_room(points: Sequence[str]) -> list[str]:
    """A remark about the points of a figure whose drives have too few spare superblocks, if there are any."""
    return [f"Left out, because garbage collection has no room: {'; '.join(points)}."] if points else []
