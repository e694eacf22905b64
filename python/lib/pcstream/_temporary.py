"""Temporary directories of objects that nobody closes."""

from __future__ import annotations

import os
import shutil
import tempfile
import weakref


class Temporary:
    """A directory that is deleted with this object, or at the end of the process.

    That of tempfile warns then, because it wants to be closed.
    """

    def __init__(self, prefix: str) -> None:
        self.name = tempfile.mkdtemp(prefix=prefix)
        self._deletion = weakref.finalize(self, _delete, self.name, os.getpid())

    def keep(self) -> None:
        """It is not deleted any more."""
        self._deletion.detach()


def _delete(name: str, owner: int) -> None:
    """A forked child has the objects of its parent, but not their directories."""
    if os.getpid() == owner:
        shutil.rmtree(name, ignore_errors=True)
