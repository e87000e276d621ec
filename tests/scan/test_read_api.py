"""Tests that `frazil.read` gives all rows of table and log, each once, at one cut."""

from __future__ import annotations

import random
import subprocess
import sys
from decimal import Decimal
from pathlib import Path

import duckdb
import polars as pl
import pyarrow as pa
import pyarrow.compute as pc
import pytest

import frazil
from frazil.errors import ConfigError, TopicNotFound
from frazil.lake.commit.offsets import TableState
from frazil.log.segments.trim import trim
from tests.query.support import World, rows

TOPIC = "orders"


def found(read: frazil.Rows) -> list[tuple[int, int, str]]:
    table = read.table()
    columns = [table.column(name).to_pylist() for name in ("_log_partition", "id", "text")]
    return sorted(zip(*columns, strict=True))


def test_a_read_has_every_row_once_whatever_happens_to_them(tmp_path: Path, seed: int) -> None:
    rng = random.Random(seed)
    expected: list[tuple[int, int, str]] = []
    nexts = dict.fromkeys(range(3), 0)
    with World(tmp_path) as world:
        older: tuple[frazil.Rows, list[tuple[int, int, str]]] | None = None
        for _ in range(25):
            partition = rng.randrange(3)
            match rng.choice(["append", "append", "seal", "move", "compact", "trim"]):
                case "append":
                    batch = rows(nexts[partition], rng.randrange(1, 50))
                    world.append(TOPIC, batch, partition)
                    nexts[partition] += len(batch)
                    expected += [(partition, row["id"], row["text"]) for row in batch.to_pylist()]
                case "seal" if nexts[partition]:
                    world.seal(TOPIC, partition)
                case "move" if expected:
                    world.move(TOPIC)
                case "compact" if older is not None and older[0].offsets:
                    world.move(TOPIC)
                    world.compact(TOPIC)
                case "trim" if expected:
                    world.move(TOPIC)
                    for each, offset in TableState.of(world.table(TOPIC)).offsets.items():
                        # The segments are only marked. Files are deleted after the grace time, which is longer than
                        # any read.
                        trim(world.log.store, TOPIC, each, needed_from=offset, grace_seconds=3600, now_ms=1)
            if not expected:
                continue
            read = frazil.read(TOPIC, config=world.config)
            assert found(read) == sorted(expected)
            assert read.offsets == {each: end for each, end in nexts.items() if end}
            if older is not None:
                assert found(older[0]) == older[1], "an older read has changed"
            older = (read, sorted(expected))


def test_columns_and_conditions_choose_the_same_rows_everywhere(tmp_path: Path) -> None:
    with World(tmp_path) as world:
        world.fill(TOPIC, rows(0, 300), moved=100, sealed=200)
        for where in (
            "id >= 90 and id < 210",
            "id > 89.5 and id <= 209.5",
            (pc.field("id") >= 90) & (pc.field("id") < 210),
            (pc.field("id") > Decimal("89.5")) & (pc.field("id") <= Decimal("209.5")),
        ):
            read = frazil.read(TOPIC, config=world.config, columns=["text"], where=where)
            assert read.schema == pa.schema([("text", pa.string())])
            assert sorted(read.table()["text"].to_pylist()) == sorted(f"row {i}" for i in range(90, 210))
        some = frazil.read(TOPIC, config=world.config, start={0: 95}, end={0: 205})
        assert sorted(some.table()["_offset"].to_pylist()) == list(range(95, 205))
        assert some.offsets == {0: 205}


def test_arrow_polars_and_others_get_the_same_rows(tmp_path: Path) -> None:
    with World(tmp_path) as world:
        world.fill(TOPIC, rows(0, 300), moved=100, sealed=200)
        read = frazil.read(TOPIC, config=world.config)
        frame = read.polars()
        assert frame["id"].sort().to_list() == list(range(300))
        assert read.lazy().sort("id").collect().equals(frame.sort("id"))
        few = read.lazy().filter(pl.col("id") % 2 == 0).select("text").head(5).collect()
        assert few.columns == ["text"]
        assert len(few) == 5
        assert set(few["text"]) <= {f"row {i}" for i in range(0, 300, 2)}
        assert len(pa.table(read)) == 300
        assert sum(len(batch) for batch in read.reader()) == 300
        with duckdb.connect() as connection:
            connection.register("arrow", read.reader())
            assert connection.execute("SELECT sum(id) FROM arrow").fetchall() == [(sum(range(300)),)]


def test_rows_of_a_tenant_are_all_that_a_tenant_sees(tmp_path: Path) -> None:
    batch = pa.record_batch({"id": list(range(90)), "who": ["a", "b", "c"] * 30})
    with World(tmp_path, topics={TOPIC: {"tenant_column": "who"}}) as world:
        world.fill(TOPIC, batch, moved=30, sealed=60)
        seen = frazil.read(TOPIC, config=world.config, tenant="b", columns=["id"]).table()
        assert sorted(seen["id"].to_pylist()) == list(range(1, 90, 3))
        assert len(frazil.read(TOPIC, config=world.config).table()) == 90


def test_what_cannot_be_read_is_said_with_what_can(tmp_path: Path) -> None:
    with World(tmp_path) as world:
        world.append(TOPIC, rows(0, 3))
        with pytest.raises(TopicNotFound, match=r"'order' does not exist.*Did you mean 'orders'\?"):
            frazil.read("order", config=world.config)
        with pytest.raises(ConfigError, match=r"no column 'ids'\. Did you mean 'id'"):
            frazil.read(TOPIC, config=world.config, columns=["ids"])
        with pytest.raises(ConfigError, match="where: 'id >' cannot be read"):
            frazil.read(TOPIC, config=world.config, where="id >")
        with pytest.raises(ConfigError, match=r"where: .*ids"):
            frazil.read(TOPIC, config=world.config, where="ids > 1")
        with pytest.raises(ConfigError, match="no column 'ids'"):
            frazil.read(TOPIC, config=world.config, where=pc.field("ids") > 1)


def test_settings_are_found_as_the_command_line_finds_them(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with World(tmp_path) as world:
        world.append(TOPIC, rows(0, 3))
        (tmp_path / "frazil.yaml").write_text("data_dir: data\n")
        monkeypatch.chdir(tmp_path)
        assert len(frazil.read(TOPIC).table()) == 3
        monkeypatch.chdir("/")
        monkeypatch.setenv("FRAZIL__DATA_DIR", str(world.config.data_dir))
        assert len(frazil.read(TOPIC).table()) == 3


def test_importing_frazil_loads_nothing_heavy() -> None:
    code = "import sys, frazil; sys.exit(any(name in sys.modules for name in ('pyarrow', 'polars', 'duckdb')))"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0
