"""Tests `frazil load` as people run it."""

from __future__ import annotations

import gzip
import json
import os
import pty
import select
import signal
import subprocess
import time
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from frazil.config.model import Config
from frazil.disk.files import read_watermark
from frazil.log.log import Log
from tests.cli.support import FRAZIL, TIMEOUT_SECONDS, environment, frazil


def write_lines(path: Path, rows: int, first: int = 0) -> Path:
    path.write_text("".join(json.dumps({"v": i}) + "\n" for i in range(first, first + rows)))
    return path


def values(folder: Path, topic: str = "t") -> list[int]:
    log = Log(Config(data_dir=folder / "data"))
    try:
        return [
            value
            for partition in log.partitions(topic)
            for records in log.reader(topic, partition).read(0)
            for value in records.batch["v"].to_pylist()
        ]
    finally:
        log.close(seal=False)


def started(folder: Path, *arguments: str, **options: Any) -> subprocess.Popen[str]:
    return subprocess.Popen(
        [FRAZIL, *arguments],
        cwd=folder,
        env=environment(),
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        **options,
    )


def test_files_of_all_kinds(tmp_path: Path) -> None:
    write_lines(tmp_path / "a.jsonl", 10)
    (tmp_path / "b.json.gz").write_bytes(gzip.compress(b'{"v": 10}\n'))
    (tmp_path / "c.ndjson.zst").write_bytes(pa.compress(b'{"v": 11}\n', "zstd", asbytes=True))
    pq.write_table(pa.table({"v": [12]}), tmp_path / "d.parquet")
    with pa.ipc.new_stream(tmp_path / "e.ipc", pa.schema([("v", pa.int64())])) as stream:
        stream.write_table(pa.table({"v": [13]}))
    names = ["a.jsonl", "b.json.gz", "c.ndjson.zst", "d.parquet", "e.ipc"]
    result = frazil(tmp_path, "load", "t", *names)
    assert (result.returncode, result.stderr) == (0, "")
    assert result.stdout.startswith("14 rows (")
    assert result.stdout.endswith("to t/0, offsets [0, 14), all sealed\n")
    assert values(tmp_path) == list(range(14))
    again = json.loads(frazil(tmp_path, "load", "t", *names, "--output", "json").stdout)
    assert [again[key] for key in ("rows", "first_offset", "end_offset", "sealed_end")] == [14, 14, 28, 28]


def test_stdin_and_a_given_schema(tmp_path: Path) -> None:
    (tmp_path / "s.yaml").write_text("v: int64\nat: timestamp[us]\n")
    line = '{"v": 1, "at": "2024-01-01T00:00:00"}\n'
    result = subprocess.run(
        [FRAZIL, "load", "t", "-", "--schema", "s.yaml"],
        cwd=tmp_path,
        env=environment(),
        input=line * 3,
        capture_output=True,
        text=True,
        check=False,
    )
    assert (result.returncode, result.stderr) == (0, "")
    columns = json.loads(frazil(tmp_path, "topics", "describe", "t", "--output", "json").stdout)["schemas"]
    assert columns == [{"version": 1, "columns": {"v": "int64", "at": "timestamp[us]"}}]
    assert values(tmp_path) == [1, 1, 1]


def test_bad_lines(tmp_path: Path) -> None:
    (tmp_path / "a.jsonl").write_text('{"v": 1}\n{"v": \n{"v": 3}\n')
    result = frazil(tmp_path, "load", "t", "a.jsonl")
    assert (result.returncode, result.stdout) == (10, "")
    assert result.stderr.startswith("frazil: a.jsonl, line 2: ")
    assert len(result.stderr.splitlines()) == 1
    result = frazil(tmp_path, "load", "t", "a.jsonl", "--skip-bad")
    assert result.returncode == 0
    assert result.stderr.startswith("frazil: a.jsonl: 1 bad lines left out; a.jsonl, line 2: ")
    assert values(tmp_path) == [1, 3]


@pytest.mark.parametrize(
    ("arguments", "code", "sentence"),
    [
        (["load", "t"], 1, "Nothing to load"),
        (["load", "t", "absent.jsonl"], 4, "absent.jsonl: there is no such file"),
        (["load", "t", "."], 4, "is a folder"),
        (["load", "t", "a.csv"], 1, "--format"),
        (["load", "no/topic", "a.jsonl"], 1, "cannot be a topic"),
        (["load", "t", "-", "--once"], 1, "--once needs files"),
        (["load", "t", "a.jsonl", "--onec"], 1, "--once"),
    ],
)
def test_what_cannot_be_loaded_is_told(tmp_path: Path, arguments: list[str], code: int, sentence: str) -> None:
    write_lines(tmp_path / "a.jsonl", 1)
    (tmp_path / "a.csv").write_text("a,b\n")
    result = frazil(tmp_path, *arguments)
    assert result.returncode == code
    assert sentence in result.stderr
    assert "Traceback" not in result.stderr


def test_beside_a_writer_of_another_process(tmp_path: Path) -> None:
    write_lines(tmp_path / "a.jsonl", 5)
    log = Log(Config(data_dir=tmp_path / "data"))
    try:
        log.writer("t", pa.schema([("v", pa.int64())])).append(pa.record_batch({"v": [100]}))
        result = json.loads(frazil(tmp_path, "load", "t", "a.jsonl", "--output", "json").stdout)
        assert (result["partition"], result["rows"]) == (1, 5)
    finally:
        log.close()
    assert values(tmp_path) == [100, *range(5)]


def test_ctrl_c_says_what_was_appended(tmp_path: Path) -> None:
    process = started(tmp_path, "load", "t", "-", stdin=subprocess.PIPE)
    assert process.stdin
    process.stdin.write('{"v": 1}\n{"v": 2}\n')
    process.stdin.flush()
    while read_watermark(tmp_path / "data/wal/t/00000") < 2:
        assert process.poll() is None
        time.sleep(0.02)
    process.send_signal(signal.SIGINT)
    _, errors = process.communicate(timeout=TIMEOUT_SECONDS)
    assert process.returncode == 130
    assert "interrupted: 2 rows" in errors
    assert values(tmp_path) == [1, 2]


@pytest.mark.parametrize("rows", [150_000])
def test_a_load_killed_and_run_again_with_once(tmp_path: Path, rows: int) -> None:
    write_lines(tmp_path / "a.jsonl", rows * 4)
    process = started(tmp_path, "load", "t", "a.jsonl", "--once")
    while read_watermark(tmp_path / "data/wal/t/00000") < rows:
        assert process.poll() is None
        time.sleep(0.005)
    process.kill()
    process.communicate()
    result = json.loads(frazil(tmp_path, "load", "t", "a.jsonl", "--once", "--output", "json").stdout)
    assert result["files"][0]["already_stored"] >= rows
    assert values(tmp_path) == list(range(rows * 4))


def test_a_bar_on_a_terminal(tmp_path: Path) -> None:
    write_lines(tmp_path / "a.jsonl", 1000)
    terminal, other_end = pty.openpty()
    process = subprocess.Popen(
        [FRAZIL, "load", "t", "a.jsonl"],
        cwd=tmp_path,
        env=environment(TERM="xterm", COLUMNS="120"),
        stdout=subprocess.PIPE,
        stderr=other_end,
        text=True,
    )
    os.close(other_end)
    shown = b""
    while select.select([terminal], [], [], TIMEOUT_SECONDS)[0]:
        try:
            shown += os.read(terminal, 65536)
        except OSError:
            break
    output, _ = process.communicate(timeout=TIMEOUT_SECONDS)
    os.close(terminal)
    assert process.returncode == 0
    assert output.startswith("1,000 rows")
    assert b"1,000 rows" in shown


def test_loads_at_the_same_time(tmp_path: Path) -> None:
    write_lines(tmp_path / "first.jsonl", 1)
    assert frazil(tmp_path, "load", "t", "first.jsonl").returncode == 0
    for number in range(3):
        write_lines(tmp_path / f"{number}.jsonl", 1000, 1 + number * 1000)
    processes = [started(tmp_path, "load", "t", f"{number}.jsonl") for number in range(3)]
    result = [process.communicate(timeout=TIMEOUT_SECONDS)[1] for process in processes]
    assert [process.returncode for process in processes] == [0, 0, 0], result
    assert sorted(values(tmp_path)) == list(range(3001))
