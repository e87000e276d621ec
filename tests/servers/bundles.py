"""Fetches servers that are more than one jar, as `pipeline.spark.jars` does, and keeps them in the cache."""

from __future__ import annotations

import hashlib
import tarfile
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

from frazil.errors import JarsUnavailable
from frazil.pipeline.spark.cache_folder import cache_folder
from frazil.pipeline.spark.jars import DRAFT, Mirror, locked, retrieve


class Bundle(NamedTuple):
    """The files of a server, and the name of their folder. The hash is that of all files by `digest`."""

    name: str
    dependencies: str
    sha256: str
    megabytes: int


def fetch_bundle(bundle: Bundle, progress: Callable[[str], None], folder: Path | None = None) -> Path:
    """Returns the folder of the files, with archives unpacked. They are fetched if they are missing."""
    folder = folder or cache_folder() / "servers"
    target = folder / bundle.name
    if target.is_dir():
        return target
    folder.mkdir(parents=True, exist_ok=True)
    with locked(folder, progress):
        if not target.is_dir():
            progress(f"fetching {bundle.name}, {bundle.megabytes} MB")
            with tempfile.TemporaryDirectory(dir=folder, prefix=DRAFT) as draft:
                _fetch(bundle, Path(draft)).rename(target)
    return target


def _fetch(bundle: Bundle, draft: Path) -> Path:
    trouble = retrieve(bundle.dependencies, draft, Mirror())
    found = draft / "found"
    if not found.is_dir():
        raise JarsUnavailable(f"{bundle.name} could not be fetched: {trouble}")
    actual = digest(found)
    if actual != bundle.sha256:
        raise JarsUnavailable(f"{bundle.name}: what was fetched has the digest {actual}, not {bundle.sha256}.")
    for archive in found.glob("*.tar.gz"):
        with tarfile.open(archive) as files:
            files.extractall(found, filter="data")
        archive.unlink()
    return found


def digest(folder: Path) -> str:
    """Returns one hash for all files of a folder, by their names and contents."""
    whole = hashlib.sha256()
    for path in sorted(folder.iterdir()):
        with path.open("rb") as file:
            whole.update(f"{path.name} {hashlib.file_digest(file, 'sha256').hexdigest()}\n".encode())
    return whole.hexdigest()
