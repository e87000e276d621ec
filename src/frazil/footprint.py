"""What keeps Frazil's own processes small.

They have no pandas: PyArrow loads it when it converts its first value, only to know whether it is one of pandas's, 30
MiB for each process. And they give memory back: by default, glibc learns from large buffers that come and go to keep
ever larger ones.
"""

from __future__ import annotations

import ctypes
import os
import sys
from importlib.abc import MetaPathFinder
from types import ModuleType

OWN_PROCESS = "FRAZIL_PROCESS"
"""Set in the environment of processes of Frazil's own: its commands, and all that these start."""

_KEPT_BYTES = 4 * 1024 * 1024
"""A buffer that is larger is the system's again as soon as it is freed, and so is a larger end of the heap. Most
buffers of requests are smaller."""
_M_TRIM_THRESHOLD, _M_MMAP_THRESHOLD = -1, -3
"""Parameters of `mallopt`."""


class _WithoutPandas(MetaPathFinder):
    def find_spec(self, fullname: str, path: object = None, target: ModuleType | None = None) -> None:
        if fullname == "pandas":
            raise ModuleNotFoundError("Frazil's own processes do without pandas.", name=fullname)


def own_process() -> None:
    """Make this process, and all that it starts, one of Frazil's own."""
    os.environ[OWN_PROCESS] = "1"
    stay_small()


def stay_small() -> None:
    """Do so if this process is Frazil's own; a user's program has what it likes."""
    if OWN_PROCESS in os.environ and has_pandas():
        sys.meta_path.insert(0, _WithoutPandas())
        _give_memory_back()


def has_pandas() -> bool:
    """Whether this process may load it."""
    return not any(isinstance(finder, _WithoutPandas) for finder in sys.meta_path)


def _give_memory_back() -> None:
    """Where the C library is glibc; others have ways of their own."""
    mallopt = getattr(ctypes.CDLL(None), "mallopt", None)
    if mallopt is not None:
        mallopt(_M_MMAP_THRESHOLD, _KEPT_BYTES)
        mallopt(_M_TRIM_THRESHOLD, _KEPT_BYTES)
