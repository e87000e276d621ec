"""Tests `frazil dlq` as people run it."""

from __future__ import annotations

import json
from pathlib import Path

from tests.cli.support import frazil
from tests.lake.kafka_records import TOPIC, put
from tests.lake.support import local_config
from tests.pipeline.support import move_all, pipeline_context


def test_an_offset_of_several_partitions_needs_its_partition(tmp_path: Path) -> None:
    settings = {"format": {"value": "json"}}
    (tmp_path / "frazil.yaml").write_text(json.dumps({"kafka": settings}))
    with pipeline_context(local_config(tmp_path, kafka=settings)) as tools:
        put(tools.store, tools.config.data_dir, [b"{no json"])
        put(tools.store, tools.config.data_dir, [b"{nor this", b"{nor that"], partition=1)
        move_all(tools, TOPIC)
    result = frazil(tmp_path, "dlq", "list", TOPIC, "--show", "0")
    assert result.returncode == 1
    assert result.stderr == (
        "frazil: --show: partitions 0, 1 have a dead letter at offset 0; say which with --partition.\n"
    )
    assert "value: {nor this\n" in frazil(tmp_path, "dlq", "list", TOPIC, "--partition", "1", "--show", "0").stdout
    assert "value: {nor that\n" in frazil(tmp_path, "dlq", "list", TOPIC, "--show", "1").stdout


def test_listed_shown_and_replayed(tmp_path: Path) -> None:
    settings = {"format": {"value": "json"}}
    (tmp_path / "frazil.yaml").write_text(json.dumps({"kafka": settings}))
    with pipeline_context(local_config(tmp_path, kafka=settings)) as tools:
        put(tools.store, tools.config.data_dir, [{"a": 1}])
        move_all(tools, TOPIC)
        assert frazil(tmp_path, "dlq", "list", TOPIC).stdout == "There are no dead letters of topic 'clicks'.\n"
        put(tools.store, tools.config.data_dir, [b"{no json", b"\xff\x00"])
        move_all(tools, TOPIC)

    shown = frazil(tmp_path, "dlq", "list", TOPIC).stdout.splitlines()
    assert shown[0].split()[:2] == ["partition", "offset"]
    assert [line.split()[:3] for line in shown[1:]] == [["0", "2", "1004"], ["0", "1", "1002"]]
    assert all("value: " in line for line in shown[1:])
    assert "value: {no json\n" in frazil(tmp_path, "dlq", "list", TOPIC, "--show", "1").stdout
    assert "value: 0xff00\n" in frazil(tmp_path, "dlq", "list", TOPIC, "--show", "2").stdout
    result = frazil(tmp_path, "dlq", "list", TOPIC, "--show", "9")
    assert (result.returncode, result.stderr) == (1, "frazil: --show: clicks has no dead letter at offset 9.\n")
    for choice, problem in (
        (("--partition", "0", "--offset", "7"), "clicks/0 has no dead letter at offset 7."),
        (("--partition", "9"), "clicks/9 has no dead letters."),
    ):
        result = frazil(tmp_path, "dlq", "replay", TOPIC, *choice)
        assert (result.returncode, result.stdout, result.stderr) == (1, "", f"frazil: {problem}\n")

    text = frazil(tmp_path, "dlq", "replay", TOPIC, "--all").stdout.splitlines()
    assert text[0] == "0 letters became rows of the base table."
    assert [line.partition(":")[0] for line in text[1:]] == [
        "clicks/0 offset 1 stays",
        "clicks/0 offset 2 stays",
    ]
    (tmp_path / "frazil.yaml").write_text(json.dumps({"kafka": {"format": {"value": "string"}}}))
    choice = ("--partition", "0", "--offset", "1")
    done = frazil(tmp_path, "dlq", "replay", TOPIC, *choice)
    assert done.stdout == "1 letter became a row of the base table.\n"
    again = json.loads(frazil(tmp_path, "dlq", "replay", TOPIC, *choice, "--output", "json").stdout)
    assert again == {"topic": TOPIC, "rows": 0, "found": 1, "waiting": [], "stuck": []}
    listed = json.loads(frazil(tmp_path, "dlq", "list", TOPIC, "--output", "json").stdout)
    assert [each["replayed_at"] is not None for each in listed] == [False, True]
