"""Writes small programs into the cache folder, which other programs start by their path."""

from __future__ import annotations

import hashlib
import os
import tempfile
from pathlib import Path


def cached_script(cache: Path, folder: str, place: str, script: str) -> Path:
    """Returns the path of a script, which is written if it is not there.

    It is at `place` in a folder whose name begins with `folder` and depends on the script, so that another version of
    Frazil has another.
    """
    path = cache / f"{folder}-{hashlib.sha256(script.encode()).hexdigest()[:12]}" / place
    if not (path.is_file() and path.read_text() == script):
        _write(path, script)
    return path


def _write(path: Path, script: str) -> None:
    """Writes the script atomically, because another process may be starting it at this moment."""
    path.parent.mkdir(parents=True, exist_ok=True)
    descriptor, draft = tempfile.mkstemp(dir=path.parent, prefix=f"{path.name}-")
    try:
        with open(descriptor, "w") as file:
            file.write(script)
        os.chmod(draft, 0o755)
        os.rename(draft, path)
    except BaseException:
        os.unlink(draft)
        raise
