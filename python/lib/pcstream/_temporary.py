"""Temporary directories of objects that nobody closes."""

from __future__ import annotations

import shutil
import tempfile
import weakref


class Temporary:
    """A directory that is deleted with this object, or at the end of the process.

    That of tempfile warns then, because it wants to be closed.
    """

    def __init__(self, prefix: str) -> None:
        self.name = tempfile.mkdtemp(prefix=prefix)
        weakref.finalize(self, shutil.rmtree, self.name, ignore_errors=True)
