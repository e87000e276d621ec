"""Tests `frazil txlog` as people run it."""

from __future__ import annotations

import json
from pathlib import Path

from tests.cli.support import frazil
from tests.pipeline.txlog.support import newest, opened, send, start, succeed


def test_without_a_pipeline(tmp_path: Path) -> None:
    result = frazil(tmp_path, "txlog", "show")
    assert (result.returncode, result.stdout) == (0, f"There is nothing in {tmp_path}/data/txlog yet.\n")
    assert frazil(tmp_path, "txlog", "show", "--output", "json").stdout == "[]\n"
    assert not (tmp_path / "data").exists(), "looking leaves nothing behind"


def test_show_while_a_pipeline_runs(tmp_path: Path) -> None:
    with opened(tmp_path / "data") as log:
        log.offset_marker("orders", 0, 20, 15)
        start(log, "a")
        send(log, "a", 7)
        log.commit_end("orders", "lake.orders", "a", success=False, reason="the table has changed", retry=True)
        send(log, "a", 9)
        succeed(log, "a", 9)
        log.flush_end("orders", "lake.orders", "a", snapshot_id=9, files_created=2)
        log.maintenance_op("expiry", "lake.orders", {"snapshots": 3}, topic="orders")
        start(log, "b", "lake.users", "users")

        shown = frazil(tmp_path, "txlog", "show")
        assert shown.returncode == 0, shown.stderr
        lines = shown.stdout.splitlines()
        columns = ("time", "slot", "number", "what happened", "topic", "table", "offsets", "files", "snapshot")
        assert lines[0].split() == " ".join(columns).split()
        assert [line.split()[2] for line in lines[1:]] == [str(number) for number in range(10)]
        assert lines[1].startswith("2023-11-14T22:13:20.000+00:00  0     0       checkpoint; no unfinished attempts")
        for words in (
            "read 15 records",
            "0: up to 20",
            "began to write 15 records, 1,000 bytes (a)",
            "0: 10–20, 3: 0–5",
            "began to commit on top of 6 (a)",
            "did not commit: the table has changed; tries again (a)",
            "committed (a)",
            "finished (a)",
            "maintenance: expiry (snapshots 3)",
        ):
            assert words in shown.stdout

        users = json.loads(frazil(tmp_path, "txlog", "show", "--topic", "users", "--output", "json").stdout)
        assert [(each["entry"], each["number"], each["slot"]) for each in users] == [("FlushStart", 9, 0)]
        assert users[0]["ranges"][0] == {"partition": 0, "start": 10, "end": 20, "epoch": "e0"}
        last = json.loads(frazil(tmp_path, "txlog", "show", "--last", "2", "--output", "json").stdout)
        assert [each["entry"] for each in last] == ["MaintenanceOp", "FlushStart"]
        result = frazil(tmp_path, "txlog", "show", "--topic", "nobody")
        assert (result.returncode, result.stdout) == (1, "")
        assert "Topic 'nobody' does not exist" in result.stderr
        log.maintenance_op("compact", "lake.orders", {"note": "very " * 100})
        shown = frazil(tmp_path, "txlog", "show", "--last", "1")
        assert max(map(len, shown.stdout.splitlines())) < 250
        assert "very very" in shown.stdout
    assert frazil(tmp_path, "txlog", "show", "--last", "-1").returncode == 1


def test_damage_is_told_after_what_is_clean(tmp_path: Path) -> None:
    with opened(tmp_path / "data") as log:
        start(log, "a")
        first = newest(tmp_path / "data")
        log.checkpoint()
    with first.open("ab") as file:
        file.write(b"rubbish at the end of an older file")
    result = frazil(tmp_path, "txlog", "show")
    assert result.returncode == 5
    assert "began to write 15 records" in result.stdout
    assert f"{first.name} is damaged at byte " in result.stderr
