"""Keeps the memory of Frazil's own processes small.

They have no pandas: PyArrow loads it when it converts its first value, only to check whether that is a value of
pandas, which takes 30 MiB in each process. And they return freed memory: by default, glibc learns from large buffers
that come and go to keep ever larger ones.
"""

from __future__ import annotations

import ctypes
import os
import sys
from importlib.abc import MetaPathFinder
from types import ModuleType

OWN_PROCESS = "FRAZIL_PROCESS"
"""The environment variable that is set in Frazil's own processes: its commands, and all that these start."""

_KEPT_BYTES = 4 * 1024 * 1024
"""Larger buffers are returned to the system as soon as they are freed, and so is a larger end of the heap. Most
buffers of requests are smaller."""
_M_TRIM_THRESHOLD, _M_MMAP_THRESHOLD = -1, -3
"""Parameters of `mallopt`."""


class _WithoutPandas(MetaPathFinder):
    def find_spec(self, fullname: str, path: object = None, target: ModuleType | None = None) -> None:
        if fullname == "pandas":
            raise ModuleNotFoundError("Frazil's own processes do without pandas.", name=fullname)


def own_process() -> None:
    """Marks this process, and all that it starts, as Frazil's own."""
    os.environ[OWN_PROCESS] = "1"
    stay_small()


def stay_small() -> None:
    """Keeps this process small if it is Frazil's own. A user's program is left alone."""
    if OWN_PROCESS in os.environ and has_pandas():
        sys.meta_path.insert(0, _WithoutPandas())
        _give_memory_back()


def has_pandas() -> bool:
    """Returns whether this process may load pandas."""
    return not any(isinstance(finder, _WithoutPandas) for finder in sys.meta_path)


def _give_memory_back() -> None:
    """Tells the allocator to return freed memory, if the C library is glibc."""
    mallopt = getattr(ctypes.CDLL(None), "mallopt", None)
    if mallopt is not None:
        mallopt(_M_MMAP_THRESHOLD, _KEPT_BYTES)
        mallopt(_M_TRIM_THRESHOLD, _KEPT_BYTES)
