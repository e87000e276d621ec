"""Frazil: streams become Apache Iceberg tables exactly once, readable from the first millisecond."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from frazil.footprint import stay_small
from frazil.version import __version__

if TYPE_CHECKING:
    from frazil.scan.read_api import Rows, read


__all__ = ["Rows", "__version__", "read"]

# Before any other module of ours converts a value.
stay_small()


def __getattr__(name: str) -> Any:
    """`frazil.read` is loaded when it is first used: most who import Frazil do not read, and Arrow takes a while."""
    if name in ("Rows", "read"):
        from frazil.scan import read_api

        return getattr(read_api, name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
