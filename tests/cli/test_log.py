"""Tests `frazil log` as people run it."""

from __future__ import annotations

import json
import os
import pty
import select
import subprocess
from pathlib import Path

import pytest

from tests.cli.support import FRAZIL, TIMEOUT_SECONDS, environment, frazil
from tests.log.check.wal_cases import (
    APPENDS,
    ROWS,
    SEALED,
    TOPIC,
    fill,
    flip,
    opened,
    stored,
    surveyed,
    wal_directory,
)


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    fill(tmp_path)
    return tmp_path


def harm(folder: Path) -> tuple[Path, int]:
    harmed = surveyed(folder).records[2]
    flip(harmed.path, harmed.frame.start + 20)
    return harmed.path, harmed.frame.start


def test_inspect(folder: Path) -> None:
    text = frazil(folder, "log", "inspect").stdout
    assert text.startswith(f"{TOPIC}/0  owner node-")
    assert f"offsets 0 to {APPENDS * ROWS}, sealed up to {SEALED * ROWS}, low mark 0" in text
    assert "records" in frazil(folder, "log", "inspect", f"{TOPIC}/0", "--frames").stdout
    (shown,) = json.loads(frazil(folder, "log", "inspect", TOPIC, "--frames", "--output", "json").stdout)
    assert [segment["end_offset"] for segment in shown["segments"]] == [SEALED * ROWS]
    assert [file["state"] for file in shown["wal_files"]] == ["clean"] * 3
    kinds = [frame["kind"] for frame in shown["wal_files"][0]["frames"]]
    assert kinds == ["header", "records", "records", "records", "closed"]
    assert shown["positions"]["producers"] == 1


def test_inspect_beside_a_writer(folder: Path) -> None:
    with opened(folder) as log:
        log.writer(TOPIC)
        (shown,) = json.loads(frazil(folder, "log", "inspect", "--output", "json").stdout)
        assert shown["written_now"]
        assert frazil(folder, "log", "verify").returncode == 0


@pytest.mark.parametrize("name", ["order", f"{TOPIC}/7", f"{TOPIC}/x"])
def test_names_that_mean_nothing(folder: Path, name: str) -> None:
    result = frazil(folder, "log", "inspect", name)
    assert result.returncode in (1, 5)
    assert result.stderr.startswith("frazil: ")


def test_verify(folder: Path) -> None:
    result = frazil(folder, "log", "verify")
    assert (result.returncode, result.stdout) == (0, f"1 partition checked in {folder}/data/store: clean\n")
    path, byte = harm(folder)
    result = frazil(folder, "log", "verify", f"{TOPIC}/0")
    assert result.returncode == 5
    assert f"problem: {path.relative_to(folder)}, byte {byte}: damaged" in result.stdout
    result = frazil(folder, "log", "verify", "--output", "json")
    assert result.returncode == 5
    assert byte in [found["byte"] for found in json.loads(result.stdout)["findings"]]


def test_repair_asks_and_tells(folder: Path) -> None:
    path, byte = harm(folder)
    before = {file: file.read_bytes() for file in wal_directory(folder).glob("*.wal")}
    for arguments, code in ((["--dry-run"], 0), ([], 1)):
        result = frazil(folder, "log", "repair", f"{TOPIC}/0", *arguments)
        assert result.returncode == code
        assert f"{path.relative_to(folder)}, bytes {byte} to" in result.stdout
        assert f"lost: {ROWS} records" in result.stdout
        assert {file: file.read_bytes() for file in wal_directory(folder).glob("*.wal")} == before
    assert "--yes" in result.stderr
    result = frazil(folder, "log", "repair", f"{TOPIC}/0", "--yes")
    assert result.returncode == 0
    assert "done; the files that were there are in" in result.stdout
    assert frazil(folder, "log", "verify").returncode == 0
    assert len(stored(folder)) == (APPENDS - 1) * ROWS
    assert "nothing to repair" in frazil(folder, "log", "repair", f"{TOPIC}/0").stdout


@pytest.mark.parametrize(("answer", "code"), [("n", 130), ("y", 0)])
def test_repair_on_a_terminal(folder: Path, answer: str, code: int) -> None:
    harm(folder)
    terminal, other_end = pty.openpty()
    process = subprocess.Popen(
        [FRAZIL, "log", "repair", f"{TOPIC}/0"],
        cwd=folder,
        env=environment(TERM="dumb"),
        stdin=other_end,
        stdout=other_end,
        stderr=other_end,
    )
    os.close(other_end)
    shown = b""
    while select.select([terminal], [], [], TIMEOUT_SECONDS)[0]:
        try:
            shown += os.read(terminal, 65536)
        except OSError:
            break
        if b"[y/N] " in shown and answer:
            os.write(terminal, f"{answer}\n".encode())
            answer = ""
    assert process.wait(TIMEOUT_SECONDS) == code
    os.close(terminal)
    assert frazil(folder, "log", "verify").returncode == (0 if code == 0 else 5)


def test_repair_while_it_is_written(folder: Path) -> None:
    with opened(folder) as log:
        log.writer(TOPIC)
        result = frazil(folder, "log", "repair", f"{TOPIC}/0", "--yes")
    assert result.returncode == 5
    assert f"{TOPIC}/0 is being written" in result.stderr
    assert f"process {os.getpid()}" in result.stderr
