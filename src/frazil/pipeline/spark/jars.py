"""Fetches the jars that Spark needs besides its own into a cache, with the Ivy that comes with PySpark.

A jar in the cache needs neither network nor a JVM, so a machine without network works with a cache that was filled
elsewhere, or by hand.
"""

from __future__ import annotations

import fcntl
import hashlib
import importlib.util
import shutil
import subprocess
import tempfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import NamedTuple
from xml.sax.saxutils import quoteattr

from frazil.errors import ConfigError, JarsUnavailable
from frazil.pipeline.spark.cache_folder import VARIABLE, cache_folder
from frazil.pipeline.spark.java import find_java

_FETCH_SECONDS = 1800.0
# Without these timeouts Ivy waits for minutes per try in a network that drops packets.
_TIMEOUTS = ("-Dsun.net.client.defaultConnectTimeout=15000", "-Dsun.net.client.defaultReadTimeout=60000")
DRAFT = ".fetch-"


class Pin(NamedTuple):
    """The checksum that a fetched jar must have, and its size."""

    sha256: str
    megabytes: int


PINS: Mapping[str, Pin] = {
    "org.apache.iceberg:iceberg-spark-runtime-4.1_2.13:1.12.0": Pin(
        "3123c3798af642dd537230923548e013ef41cc28b6626e5225808cf5670a0f82", 48
    ),
    "org.apache.iceberg:iceberg-aws-bundle:1.12.0": Pin(
        "dd7e49ffa4ac9b215bed846581991259e3aec9bb2fa08d6cec029c46cd66d957", 69
    ),
    "org.xerial:sqlite-jdbc:3.50.3.0": Pin("a3f53a2aa15ae9425a9e793bbe9c8e5288febeb4b65ef5c1a4e80d4c2045cf08", 14),
    "org.postgresql:postgresql:42.7.7": Pin("157963d60ae66d607e09466e8c0cdf8087e9cb20d0159899ffca96bca2528460", 1),
}


class Package(NamedTuple):
    """A jar by its Maven coordinates, `group:artifact:version`, perhaps with `:classifier`."""

    group: str
    artifact: str
    version: str
    classifier: str = ""

    @classmethod
    def parse(cls, coordinates: str) -> Package:
        parts = coordinates.split(":")
        if len(parts) not in {3, 4} or not all(parts):
            raise ConfigError(f"{coordinates!r} is not a package; write group:artifact:version.")
        return cls(*parts)

    def __str__(self) -> str:
        return f"{self.artifact} {self.version}" + (f" ({self.classifier})" if self.classifier else "")

    @property
    def file_name(self) -> str:
        return "-".join(part for part in self[1:] if part) + ".jar"


class Mirror(NamedTuple):
    """The repositories for jars besides Ivy's own, from Spark's settings for them."""

    ivy_settings: str | None = None
    repositories: Sequence[str] = ()

    @classmethod
    def of(cls, spark: Mapping[str, str]) -> Mirror:
        listed = spark.get("spark.jars.repositories", "").split(",")
        return cls(spark.get("spark.jars.ivySettings"), [url.strip() for url in listed if url.strip()])


def fetch_jars(
    packages: Sequence[str],
    progress: Callable[[str], None],
    *,
    mirror: Mirror | None = None,
    pins: Mapping[str, Pin] = PINS,
    folder: Path | None = None,
) -> list[Path]:
    """Returns the jars of these packages in order, without their dependencies. Missing jars are fetched."""
    folder = folder or cache_folder() / "jars"
    wanted = {coordinates: folder / Package.parse(coordinates).file_name for coordinates in packages}
    if not _missing(wanted):
        return list(wanted.values())
    try:
        folder.mkdir(parents=True, exist_ok=True)
        with locked(folder, progress):
            for coordinates in _missing(wanted):
                _fetch(coordinates, wanted, progress, mirror or Mirror(), pins.get(coordinates))
    except OSError as error:
        raise JarsUnavailable(
            f"{folder}: jars cannot be stored here ({error.strerror}). Set {VARIABLE} to a folder that can be "
            f"written to."
        ) from error
    return list(wanted.values())


def _missing(wanted: Mapping[str, Path]) -> list[str]:
    return [coordinates for coordinates, path in wanted.items() if not path.is_file()]


@contextmanager
def locked(folder: Path, progress: Callable[[str], None]) -> Iterator[None]:
    """Locks the folder, so that processes that start together fetch each jar once.

    Files that a killed process left behind are removed.
    """
    with (folder / ".lock").open("w") as lock:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            progress("waiting for another process that is fetching jars")
            fcntl.flock(lock, fcntl.LOCK_EX)
        for left in folder.glob(f"{DRAFT}*"):
            shutil.rmtree(left, ignore_errors=True)
        yield


def _fetch(
    coordinates: str, wanted: Mapping[str, Path], progress: Callable[[str], None], mirror: Mirror, pin: Pin | None
) -> None:
    package = Package.parse(coordinates)
    target = wanted[coordinates]
    progress(f"fetching {package}" + (f", {pin.megabytes} MB" if pin else ""))
    with tempfile.TemporaryDirectory(dir=target.parent, prefix=DRAFT) as draft:
        found = Path(draft) / "found" / target.name
        trouble = retrieve(_dependency(package), Path(draft), mirror)
        if not found.is_file():
            missing = _missing(wanted)
            raise JarsUnavailable(
                f"Spark needs {', '.join(missing)}, and {coordinates} could not be fetched: {trouble} Connect this "
                f"machine to the network, name a mirror in `pipeline.spark` (`spark.jars.ivySettings` or "
                f"`spark.jars.repositories`), or put {', '.join(wanted[name].name for name in missing)} into "
                f"{target.parent} by hand ({VARIABLE} chooses another folder)."
            )
        if pin is not None:
            _verify(coordinates, found, pin)
        found.rename(target)


def _verify(coordinates: str, path: Path, pin: Pin) -> None:
    with path.open("rb") as file:
        actual = hashlib.file_digest(file, "sha256").hexdigest()
    if actual != pin.sha256:
        raise JarsUnavailable(
            f"{coordinates}: what was fetched has the SHA-256 {actual}, not {pin.sha256}. It was not kept; check the "
            f"mirror it came from."
        )


def retrieve(dependencies: str, draft: Path, mirror: Mirror) -> str:
    """Fetches dependencies, given in Ivy's XML, into `found` in the draft. Returns Ivy's reason in case it failed."""
    module = draft / "ivy.xml"
    module.write_text(_module(dependencies))
    command: list[str | Path] = [find_java().path, *_TIMEOUTS, "-jar", _ivy_jar(), "-warn"]
    if mirror.ivy_settings:
        command += ["-settings", mirror.ivy_settings]
    elif mirror.repositories:
        settings = draft / "settings.xml"
        settings.write_text(_settings(mirror.repositories))
        command += ["-settings", settings]
    pattern = f"{draft}/found/[artifact]-[revision](-[classifier]).[ext]"
    command += ["-ivy", module, "-confs", "default", "-cache", draft / "cache", "-retrieve", pattern]
    try:
        done = subprocess.run(
            command,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            timeout=_FETCH_SECONDS,
            check=False,
        )
    except subprocess.TimeoutExpired:
        return f"it took longer than {_FETCH_SECONDS:.0f} seconds."
    return _reason(done.stdout.decode(errors="replace"))


def _reason(output: str) -> str:
    """Returns the line of Ivy's output that explains the failure best."""
    lines = [line.strip(" \t:.") for line in output.splitlines()]
    told = [line for line in lines if line]
    for sign in ("Exception", "timed out", "refused", "unknown host", "error", "not found"):
        for line in told:
            if sign.lower() in line.lower():
                return f"{line[:300]}."
    return f"{told[-1][:300]}." if told else "it was not found."


def spark_home() -> Path:
    """Returns where PySpark is installed, without importing it, which would take a while."""
    found = importlib.util.find_spec("pyspark")
    assert found is not None
    assert found.origin is not None
    return Path(found.origin).parent


def _ivy_jar() -> Path:
    return max((spark_home() / "jars").glob("ivy-*.jar"))


def _dependency(package: Package) -> str:
    """Returns the dependency on the jar alone. What it depends on is in the jar or in Spark."""
    classifier = f" m:classifier={quoteattr(package.classifier)}" if package.classifier else ""
    return (
        f"<dependency org={quoteattr(package.group)} name={quoteattr(package.artifact)} "
        f'rev={quoteattr(package.version)} transitive="false" conf="default->master">'
        f'<artifact name={quoteattr(package.artifact)} type="jar" ext="jar"{classifier}/>'
        "</dependency>"
    )


def _module(dependencies: str) -> str:
    return (
        '<ivy-module version="2.0" xmlns:m="http://ant.apache.org/ivy/maven">\n'
        '<info organisation="frazil" module="jars"/>\n'
        '<configurations><conf name="default"/></configurations>\n'
        f"<dependencies>{dependencies}</dependencies>\n</ivy-module>\n"
    )


def _settings(repositories: Sequence[str]) -> str:
    """Returns Ivy's settings with these repositories first, and then Ivy's own."""
    named = "".join(
        f'<ibiblio name="given-{number}" m2compatible="true" root={quoteattr(url)}/>'
        for number, url in enumerate(repositories)
    )
    return (
        '<ivysettings>\n<settings defaultResolver="all"/>\n'
        '<include url="${ivy.default.settings.dir}/ivysettings-public.xml"/>\n'
        f'<resolvers><chain name="all" returnFirst="true">{named}<resolver ref="public"/></chain></resolvers>\n'
        "</ivysettings>\n"
    )
