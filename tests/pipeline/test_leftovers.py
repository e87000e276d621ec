"""Files of batches that did not come into their table."""

from __future__ import annotations

from pathlib import Path

from frazil.lake.offsets import ATTEMPT, summary_of
from frazil.lake.proposals import Request
from frazil.lake.ranges import Range
from frazil.lake.tables import base_identifier
from frazil.pipeline.leftovers import Leftovers
from tests.lake.support import local_config
from tests.log.support import TOPIC
from tests.pipeline.support import expect_once, found_offsets, move_all, seal, tools_of


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
