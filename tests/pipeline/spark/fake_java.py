"""A `java` that can only print its version."""

from __future__ import annotations

from pathlib import Path


def write_fake_java(folder: Path, version: int) -> Path:
    told = f"1.{version}" if version < 9 else str(version)
    path = folder / "java"
    folder.mkdir(parents=True)
    path.write_text(
        f"#!/bin/sh\nprintf '    java.home = {folder.parent}\\n    java.specification.version = {told}\\n' >&2\n"
    )
    path.chmod(0o755)
    return path
