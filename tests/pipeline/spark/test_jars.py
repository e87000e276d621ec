"""Tests that jars are fetched from a repository once, completely and unchanged, and then taken from the cache."""

from __future__ import annotations

import hashlib
import threading
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from frazil.errors import ConfigError, JarsUnavailable
from frazil.pipeline.spark.jars import Mirror, Pin, fetch_jars

# Spark's resolver of jars runs in processes of their own.
pytestmark = pytest.mark.server

PACKAGE = "org.example:thing_2.13:1.2.3"
RUNNER = "org.example:thing_2.13:1.2.3:runner"
CONTENT = b"not much of a jar"
PIN = Pin(hashlib.sha256(CONTENT).hexdigest(), 1)


@pytest.fixture
def repository(tmp_path: Path) -> Path:
    """Makes a Maven repository in a folder, with one module whose dependency is missing."""
    place = tmp_path / "repository" / "org" / "example" / "thing_2.13" / "1.2.3"
    place.mkdir(parents=True)
    (place / "thing_2.13-1.2.3.jar").write_bytes(CONTENT)
    (place / "thing_2.13-1.2.3-runner.jar").write_bytes(b"run")
    (place / "thing_2.13-1.2.3-sources.jar").write_bytes(b"sources")
    (place / "thing_2.13-1.2.3.pom").write_text(
        "<project><modelVersion>4.0.0</modelVersion><groupId>org.example</groupId>"
        "<artifactId>thing_2.13</artifactId><version>1.2.3</version><dependencies><dependency>"
        "<groupId>org.example</groupId><artifactId>nowhere</artifactId><version>1</version>"
        "</dependency></dependencies></project>"
    )
    return tmp_path / "repository"


@pytest.fixture
def mirror(tmp_path: Path, repository: Path) -> Mirror:
    """Returns only that repository, by a settings file of Ivy."""
    settings = tmp_path / "ivysettings.xml"
    settings.write_text(
        '<ivysettings><settings defaultResolver="only"/><resolvers>'
        f'<ibiblio name="only" m2compatible="true" root="{repository.as_uri()}"/>'
        "</resolvers></ivysettings>"
    )
    return Mirror.of({"spark.jars.ivySettings": str(settings)})


def test_a_jar_is_fetched_alone_and_then_kept(
    tmp_path: Path, mirror: Mirror, repository: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    said: list[str] = []
    cache = tmp_path / "cache"
    jars = fetch_jars([RUNNER, PACKAGE], said.append, mirror=mirror, pins={PACKAGE: PIN}, folder=cache)
    assert [jar.name for jar in jars] == ["thing_2.13-1.2.3-runner.jar", "thing_2.13-1.2.3.jar"]
    assert [jar.read_bytes() for jar in jars] == [b"run", CONTENT]
    assert said == ["fetching thing_2.13 1.2.3 (runner)", "fetching thing_2.13 1.2.3, 1 MB"]
    assert {path.name for path in cache.iterdir()} == {".lock", *(jar.name for jar in jars)}

    monkeypatch.setenv("JAVA_HOME", "/no/java/here")
    repository.rename(tmp_path / "gone")
    assert fetch_jars([RUNNER, PACKAGE], said.append, mirror=mirror, folder=cache) == jars
    assert len(said) == 2


def test_repositories_of_the_settings_are_asked(tmp_path: Path, repository: Path) -> None:
    mirror = Mirror.of({"spark.jars.repositories": f" {(tmp_path / 'empty').as_uri()} , {repository.as_uri()}/"})
    (jar,) = fetch_jars([PACKAGE], _ignore, mirror=mirror, pins={PACKAGE: PIN}, folder=tmp_path / "cache")
    assert jar.read_bytes() == CONTENT


def test_the_cache_folder_is_chosen_by_a_variable(
    tmp_path: Path, mirror: Mirror, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("FRAZIL_CACHE_DIR", str(tmp_path / "chosen"))
    (jar,) = fetch_jars([PACKAGE], _ignore, mirror=mirror)
    assert jar.parent == tmp_path / "chosen" / "jars"


def test_a_jar_put_there_by_hand_is_used(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("JAVA_HOME", "/no/java/here")
    jar = tmp_path / "thing_2.13-1.2.3.jar"
    jar.write_bytes(CONTENT)
    assert fetch_jars([PACKAGE], _ignore, folder=tmp_path) == [jar]


def test_processes_that_start_together_fetch_once(tmp_path: Path, mirror: Mirror) -> None:
    said: list[str] = []
    together = threading.Barrier(4)

    def fetch(_: int) -> list[Path]:
        together.wait()
        return fetch_jars([PACKAGE], said.append, mirror=mirror, folder=tmp_path / "cache")

    with ThreadPoolExecutor(4) as pool:
        found = list(pool.map(fetch, range(4)))
    assert all(jars == found[0] for jars in found)
    assert sum(line.startswith("fetching") for line in said) == 1


def test_what_a_killed_process_left_is_removed(tmp_path: Path, mirror: Mirror) -> None:
    left = tmp_path / "cache" / ".fetch-abc"
    left.mkdir(parents=True)
    (left / "half.jar").write_bytes(b"half")
    fetch_jars([PACKAGE], _ignore, mirror=mirror, folder=tmp_path / "cache")
    assert not left.exists()


def test_a_changed_jar_is_refused_and_not_kept(tmp_path: Path, mirror: Mirror) -> None:
    with pytest.raises(JarsUnavailable, match=f"{PACKAGE}: what was fetched has the SHA-256 {PIN.sha256}, not 0000"):
        fetch_jars([PACKAGE], _ignore, mirror=mirror, pins={PACKAGE: Pin("0000", 1)}, folder=tmp_path / "cache")
    assert not list((tmp_path / "cache").glob("*.jar"))


def test_without_network_the_error_says_what_to_do(tmp_path: Path) -> None:
    settings = tmp_path / "ivysettings.xml"
    settings.write_text(
        '<ivysettings><settings defaultResolver="only"/><resolvers>'
        '<ibiblio name="only" m2compatible="true" root="http://127.0.0.1:1/"/></resolvers></ivysettings>'
    )
    with pytest.raises(JarsUnavailable) as caught:
        fetch_jars([PACKAGE, RUNNER], _ignore, mirror=Mirror(str(settings)), folder=tmp_path / "cache")
    said = str(caught.value)
    assert said.startswith(f"Spark needs {PACKAGE}, {RUNNER}")
    assert "refused" in said
    assert "`spark.jars.ivySettings`" in said
    assert f"thing_2.13-1.2.3-runner.jar into {tmp_path / 'cache'} by hand (FRAZIL_CACHE_DIR" in said
    assert len(said.splitlines()) == 1


def test_a_folder_that_cannot_be_written_is_an_error(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(JarsUnavailable, match="FRAZIL_CACHE_DIR"):
        fetch_jars([PACKAGE], _ignore, folder=tmp_path / "file" / "jars")


@pytest.mark.parametrize("wrong", ["", "thing", "a:b", "a::1", "a:b:c:d:e"])
def test_what_is_not_a_package_is_refused(tmp_path: Path, wrong: str) -> None:
    with pytest.raises(ConfigError, match="group:artifact:version"):
        fetch_jars([wrong], _ignore, folder=tmp_path)


def _ignore(_: str) -> None: ...
