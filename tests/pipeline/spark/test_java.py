"""Tests that a suitable Java is found, and that others are refused."""

from __future__ import annotations

import os
import subprocess
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from frazil.errors import JavaNotFound
from frazil.pipeline.spark.java import bundled_java, find_java
from tests.pipeline.spark.fake_java import write_fake_java


def test_java_home_comes_first(tmp_path: Path) -> None:
    fake = write_fake_java(tmp_path / "path", version=25)
    environ = {"JAVA_HOME": str(bundled_java().home), "PATH": str(fake.parent)}
    assert find_java(environ) == bundled_java()


def test_java_on_the_path_is_used_if_it_is_not_too_old(tmp_path: Path) -> None:
    fake = write_fake_java(tmp_path / "bin", version=17)
    found = find_java({"PATH": str(fake.parent), "FRAZIL_CACHE_DIR": str(tmp_path / "cache")})
    assert (found.path, found.version, found.home) == (fake, 17, tmp_path)


@pytest.mark.parametrize("version", [None, 8, 11])
def test_without_one_there_is_the_one_of_the_package(tmp_path: Path, version: int | None) -> None:
    if version is not None:
        write_fake_java(tmp_path / "bin", version=version)
    found = find_java({"PATH": str(tmp_path / "bin"), "FRAZIL_CACHE_DIR": str(tmp_path / "cache")})
    assert found.version == 21
    assert found.path == found.home / "bin" / "java"
    assert found.path.is_relative_to(tmp_path / "cache")
    # Spark's launcher starts it like this, with a module that this Java does not have.
    options = ["--add-modules=jdk.incubator.vector", "-Dtold=a b  'c' $HOME", "-XshowSettings:properties"]
    answer = subprocess.run([str(found.path), *options, "-version"], capture_output=True, check=True, text=True)
    assert "told = a b  'c' $HOME\n" in answer.stderr


def test_a_java_on_the_path_that_does_not_run_is_passed_over(tmp_path: Path) -> None:
    broken = tmp_path / "bin" / "java"
    broken.parent.mkdir()
    broken.write_text("#!/bin/sh\nexit 3\n")
    broken.chmod(0o755)
    assert find_java({"PATH": str(broken.parent), "FRAZIL_CACHE_DIR": str(tmp_path / "cache")}).version == 21


def test_many_processes_may_need_it_at_once(tmp_path: Path) -> None:
    environ = {"PATH": "", "FRAZIL_CACHE_DIR": str(tmp_path)}
    with ThreadPoolExecutor(8) as pool:
        found = list(pool.map(lambda _: find_java(environ), range(32)))
    assert len(set(found)) == 1
    assert os.listdir(found[0].path.parent) == ["java"]


def test_a_java_home_that_is_too_old_is_an_error(tmp_path: Path) -> None:
    write_fake_java(tmp_path / "bin", version=11)
    with pytest.raises(
        JavaNotFound, match=r"JAVA_HOME is .*, a Java 11; Spark needs 17\. Set JAVA_HOME to a Java 17"
    ):
        find_java({"JAVA_HOME": str(tmp_path)})


def test_a_java_home_without_java_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(JavaNotFound, match=r"there is no .*/bin/java\. Set JAVA_HOME .* or unset it"):
        find_java({"JAVA_HOME": str(tmp_path)})


def test_a_cache_that_cannot_be_written_is_an_error(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(JavaNotFound, match="FRAZIL_CACHE_DIR"):
        find_java({"PATH": "", "FRAZIL_CACHE_DIR": str(tmp_path / "file")})
