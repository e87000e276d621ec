"""Finds the user's cache folder, for jars that were fetched and for the Java wrapper."""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path

VARIABLE = "FRAZIL_CACHE_DIR"


def cache_folder(environ: Mapping[str, str] = os.environ) -> Path:
    """Returns `FRAZIL_CACHE_DIR`, or the folder `frazil` in the user's cache folder."""
    given = environ.get(VARIABLE)
    if given:
        return Path(given).expanduser().absolute()
    caches = environ.get("XDG_CACHE_HOME")
    return (Path(caches) if caches else Path.home() / ".cache") / "frazil"
