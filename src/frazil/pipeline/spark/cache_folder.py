"""The folder of what is fetched or made once per user: jars, and the Java wrapper."""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path

VARIABLE = "FRAZIL_CACHE_DIR"


def cache_folder(environ: Mapping[str, str] = os.environ) -> Path:
    """`FRAZIL_CACHE_DIR`, or `frazil` in the user's folder for caches."""
    given = environ.get(VARIABLE)
    if given:
        return Path(given).expanduser().absolute()
    caches = environ.get("XDG_CACHE_HOME")
    return (Path(caches) if caches else Path.home() / ".cache") / "frazil"
