"""What keeps Frazil's own processes small: they have no pandas.

PyArrow loads pandas when it converts its first value, only to know whether it is one of pandas's: 30 MiB for each
process.
"""

from __future__ import annotations

import os
import sys
from importlib.abc import MetaPathFinder
from types import ModuleType

OWN_PROCESS = "FRAZIL_PROCESS"
"""Set in the environment of processes of Frazil's own: its commands, and all that these start."""


class _WithoutPandas(MetaPathFinder):
    def find_spec(self, fullname: str, path: object = None, target: ModuleType | None = None) -> None:
        if fullname == "pandas":
            raise ModuleNotFoundError("Frazil's own processes do without pandas.", name=fullname)


def own_process() -> None:
    """Make this process, and all that it starts, one of Frazil's own."""
    os.environ[OWN_PROCESS] = "1"
    stay_small()


def stay_small() -> None:
    """Do without pandas if this process is Frazil's own; a user's program may have it."""
    if OWN_PROCESS in os.environ and has_pandas():
        sys.meta_path.insert(0, _WithoutPandas())


def has_pandas() -> bool:
    """Whether this process may load it."""
    return not any(isinstance(finder, _WithoutPandas) for finder in sys.meta_path)
