"""Tests the cleanup of attempts that were not committed."""

from __future__ import annotations

from contextlib import closing
from pathlib import Path

from frazil.lake.catalog.lake import dotted
from frazil.lake.commit.offsets import ATTEMPT, summary_of
from frazil.lake.commit.proposals import CommitRequest
from frazil.lake.commit.ranges import Range
from frazil.lake.tables.tables import base_identifier, dead_letter_identifier
from frazil.pipeline.move.attempt_cleanup import AttemptCleanup
from tests.lake.support import local_config
from tests.log.support import TOPIC, rows, writer
from tests.pipeline.support import broken, expect_once, found_offsets, move_all, pipeline_context, seal


def test_files_that_the_table_has_stay_whatever_the_transaction_log_says(tmp_path: Path) -> None:
    with pipeline_context(local_config(tmp_path)) as context:
        seal(context.store, context.config.data_dir, 5)
        move_all(context)
        identifier = base_identifier(context.config, TOPIC)
        table = context.lake.load(identifier)
        snapshot = table.current_snapshot()
        assert snapshot is not None
        attempt = summary_of(snapshot)[ATTEMPT]
        # It looks like this to a process with an old copy, at a catalog that forgets snapshots.
        context.txlog.flush_start(
            TOPIC, ".".join(identifier), attempt, record_count=5, batch_size=0, ranges=[Range(0, 0, 5, "")]
        )
        seal(context.store, context.config.data_dir, 5)
        move_all(context)
        context.lake.load(identifier).maintenance.expire_snapshots().by_id(snapshot.snapshot_id).commit()
        AttemptCleanup(context).clean()
        expect_once(found_offsets(context.lake, identifier), {0: 10})


def test_files_that_nobody_can_commit_are_deleted(tmp_path: Path) -> None:
    with pipeline_context(local_config(tmp_path)) as context:
        seal(context.store, context.config.data_dir, 5)
        move_all(context)
        identifier = base_identifier(context.config, TOPIC)
        table = context.lake.load(identifier)
        name = ".".join(identifier)
        folder = Path(table.location().removeprefix("file://")) / "data"
        for attempt, requests in (
            ("20200101T000000000-00000001", ()),
            ("20200101T000000000-00000002", (CommitRequest(1, 2, 3),)),
        ):
            (folder / attempt).mkdir()
            (folder / attempt / "00000-00000.parquet").write_bytes(b"left")
            context.txlog.flush_start(TOPIC, name, attempt, record_count=5, batch_size=0, ranges=[Range(0, 0, 5, "")])
            for request in requests:
                context.txlog.commit_start(TOPIC, name, attempt, request)
        context.running.add((name, "20200101T000000000-00000003"))
        AttemptCleanup(context).clean()
        assert not list(folder.glob("2020*/*"))
        assert not context.txlog.open_attempts()
        expect_once(found_offsets(context.lake, identifier), {0: 5})


def test_dead_letters_of_a_batch_that_was_not_committed_are_deleted(tmp_path: Path) -> None:
    """The transaction log has nothing about them before they are to be committed."""
    attempt = "20200101T000000000-00000001"
    with pipeline_context(local_config(tmp_path)) as context:
        with closing(writer(context.store, context.config.data_dir)) as log:
            log.append(broken(0, 1))
            log.append(rows(1, 4))
            log.seal_all()
        move_all(context)
        name = dotted(base_identifier(context.config, TOPIC))
        dead = context.lake.load(dead_letter_identifier(context.config, TOPIC))
        folder = Path(dead.location().removeprefix("file://")) / "data"
        committed = sorted(folder.glob("*/*.parquet"))
        (folder / attempt).mkdir()
        (folder / attempt / "00000-00000.parquet").write_bytes(b"left")
        context.txlog.flush_start(TOPIC, name, attempt, record_count=5, batch_size=0, ranges=[Range(0, 0, 5, "")])
        AttemptCleanup(context).clean()
        assert sorted(folder.glob("*/*.parquet")) == committed != []
        assert not context.txlog.open_attempts()


def test_dead_letters_that_may_yet_be_committed_stay(tmp_path: Path) -> None:
    attempt = "20200101T000000000-00000001"
    with pipeline_context(local_config(tmp_path)) as context:
        with closing(writer(context.store, context.config.data_dir)) as log:
            log.append(broken(0, 1))
            log.seal_all()
        move_all(context)
        dead = context.lake.load(dead_letter_identifier(context.config, TOPIC))
        snapshot = dead.current_snapshot()
        assert snapshot is not None
        file = Path(dead.location().removeprefix("file://")) / "data" / attempt / "00000-00000.parquet"
        file.parent.mkdir()
        file.write_bytes(b"on its way")
        for identifier in (base_identifier, dead_letter_identifier):
            table = dotted(identifier(context.config, TOPIC))
            context.txlog.flush_start(
                TOPIC, table, attempt, record_count=1, batch_size=0, ranges=[Range(0, 1, 2, "")]
            )
        request = CommitRequest(1, snapshot.snapshot_id, (snapshot.sequence_number or 0) + 1)
        context.txlog.commit_start(TOPIC, dotted(dead.name()), attempt, request)
        AttemptCleanup(context).clean()
        assert file.exists()
        assert [each.table for each in context.txlog.open_attempts()] == [dotted(dead.name())]
