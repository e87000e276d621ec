"""Files of batches that did not come into their table."""

from __future__ import annotations

from contextlib import closing
from pathlib import Path

from frazil.lake.catalog.lake import dotted
from frazil.lake.commit.offsets import ATTEMPT, summary_of
from frazil.lake.commit.proposals import Request
from frazil.lake.commit.ranges import Range
from frazil.lake.tables.tables import base_identifier, dead_letter_identifier
from frazil.pipeline.move.leftovers import Leftovers
from tests.lake.support import local_config
from tests.log.support import TOPIC, rows, writer
from tests.pipeline.support import broken, expect_once, found_offsets, move_all, seal, tools_of


def test_files_that_the_table_has_stay_whatever_the_transaction_log_says(tmp_path: Path) -> None:
    with tools_of(local_config(tmp_path)) as tools:
        seal(tools.store, tools.config.data_dir, 5)
        move_all(tools)
        identifier = base_identifier(tools.config, TOPIC)
        table = tools.lake.load(identifier)
        snapshot = table.current_snapshot()
        assert snapshot is not None
        attempt = summary_of(snapshot)[ATTEMPT]
        # As it would look to somebody whose copy is old, at a catalog that forgets.
        tools.txlog.flush_start(
            TOPIC, ".".join(identifier), attempt, record_count=5, batch_size=0, ranges=[Range(0, 0, 5, "")]
        )
        seal(tools.store, tools.config.data_dir, 5)
        move_all(tools)
        tools.lake.load(identifier).maintenance.expire_snapshots().by_id(snapshot.snapshot_id).commit()
        Leftovers(tools).clean()
        expect_once(found_offsets(tools.lake, identifier), {0: 10})


def test_files_that_nobody_can_commit_are_deleted(tmp_path: Path) -> None:
    with tools_of(local_config(tmp_path)) as tools:
        seal(tools.store, tools.config.data_dir, 5)
        move_all(tools)
        identifier = base_identifier(tools.config, TOPIC)
        table = tools.lake.load(identifier)
        name = ".".join(identifier)
        folder = Path(table.location().removeprefix("file://")) / "data"
        for attempt, requests in (
            ("20200101T000000000-00000001", ()),
            ("20200101T000000000-00000002", (Request(1, 2, 3),)),
        ):
            (folder / attempt).mkdir()
            (folder / attempt / "00000-00000.parquet").write_bytes(b"left")
            tools.txlog.flush_start(TOPIC, name, attempt, record_count=5, batch_size=0, ranges=[Range(0, 0, 5, "")])
            for request in requests:
                tools.txlog.commit_start(TOPIC, name, attempt, request)
        tools.running.add((name, "20200101T000000000-00000003"))
        Leftovers(tools).clean()
        assert not list(folder.glob("2020*/*"))
        assert not tools.txlog.open_attempts()
        expect_once(found_offsets(tools.lake, identifier), {0: 5})


def test_dead_letters_of_a_batch_that_was_not_committed_are_deleted(tmp_path: Path) -> None:
    """The transaction log says nothing of them before they are to be committed."""
    attempt = "20200101T000000000-00000001"
    with tools_of(local_config(tmp_path)) as tools:
        with closing(writer(tools.store, tools.config.data_dir)) as log:
            log.append(broken(0, 1))
            log.append(rows(1, 4))
            log.seal_all()
        move_all(tools)
        name = dotted(base_identifier(tools.config, TOPIC))
        dead = tools.lake.load(dead_letter_identifier(tools.config, TOPIC))
        folder = Path(dead.location().removeprefix("file://")) / "data"
        committed = sorted(folder.glob("*/*.parquet"))
        (folder / attempt).mkdir()
        (folder / attempt / "00000-00000.parquet").write_bytes(b"left")
        tools.txlog.flush_start(TOPIC, name, attempt, record_count=5, batch_size=0, ranges=[Range(0, 0, 5, "")])
        Leftovers(tools).clean()
        assert sorted(folder.glob("*/*.parquet")) == committed != []
        assert not tools.txlog.open_attempts()


def test_dead_letters_that_may_yet_be_committed_stay(tmp_path: Path) -> None:
    attempt = "20200101T000000000-00000001"
    with tools_of(local_config(tmp_path)) as tools:
        with closing(writer(tools.store, tools.config.data_dir)) as log:
            log.append(broken(0, 1))
            log.seal_all()
        move_all(tools)
        dead = tools.lake.load(dead_letter_identifier(tools.config, TOPIC))
        snapshot = dead.current_snapshot()
        assert snapshot is not None
        file = Path(dead.location().removeprefix("file://")) / "data" / attempt / "00000-00000.parquet"
        file.parent.mkdir()
        file.write_bytes(b"on its way")
        for identifier in (base_identifier, dead_letter_identifier):
            table = dotted(identifier(tools.config, TOPIC))
            tools.txlog.flush_start(TOPIC, table, attempt, record_count=1, batch_size=0, ranges=[Range(0, 1, 2, "")])
        request = Request(1, snapshot.snapshot_id, (snapshot.sequence_number or 0) + 1)
        tools.txlog.commit_start(TOPIC, dotted(dead.name()), attempt, request)
        Leftovers(tools).clean()
        assert file.exists()
        assert [each.table for each in tools.txlog.open_attempts()] == [dotted(dead.name())]
