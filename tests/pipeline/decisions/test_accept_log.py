"""Tests that a table goes on with another log.

no record is moved twice, and records that are not moved are reported.
"""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pyiceberg.table import Table

from frazil.config.sections.lake import TableLayoutConfig
from frazil.errors import FrazilError, IcebergError, OffsetsAhead
from frazil.lake.catalog.lake import Lake
from frazil.lake.commit.offsets import TableState, check_not_rolled_back
from frazil.lake.schema.table_schema import base_table_schema
from frazil.lake.tables.tables import Role, create_table
from frazil.log.epochs import Epochs
from frazil.pipeline.decisions.accept_log import _shared_end, accept_log
from frazil.scan.consistency import check_against_log
from frazil.scan.log_extents import LogExtent
from tests.lake.support import TOPIC, TOPIC_SCHEMA, local_config


def made(folder: Path, offset: int, epoch: str, role: Role = "base") -> tuple[Lake, Table]:
    lake = Lake(local_config(folder))
    table = create_table(
        lake,
        ("frazil", role),
        base_table_schema(TOPIC_SCHEMA),
        topic=TOPIC,
        role=role,
        layout=TableLayoutConfig(),
        offsets={0: offset},
        epochs={0: epoch},
    )
    return lake, table


def log(start: int, end: int, *epochs: tuple[str, int]) -> dict[int, LogExtent]:
    return {0: LogExtent(start, end, end, Epochs(epochs))}


def test_a_base_table_of_another_log_never_goes_back(tmp_path: Path) -> None:
    lake, table = made(tmp_path, 4, "a")
    done, missing = accept_log(lake, table, log(0, 9, ("b", 0)))
    state = TableState.of(done)
    assert (state.offsets, state.epochs) == ({0: 4}, {0: "b"})
    assert missing == (
        "What the log has from offset 0 up to 4 of partition 0 is not moved, as the table has other rows there.",
    )
    check_not_rolled_back(lake.load(table.name()))
    check_against_log(state, log(0, 9, ("b", 0)))


def test_a_base_table_ahead_of_its_log_is_not_accepted(tmp_path: Path) -> None:
    lake, table = made(tmp_path, 40, "a")
    with pytest.raises(OffsetsAhead, match=r"ends at offset 9 .*resume orders --recreate` puts the table aside"):
        accept_log(lake, table, log(0, 9, ("a", 0)))
    assert lake.load(table.name()).metadata == table.metadata


def test_a_log_trimmed_too_far(tmp_path: Path) -> None:
    lake, table = made(tmp_path, 4, "a")
    done, missing = accept_log(lake, table, log(7, 9, ("a", 0)))
    assert TableState.of(done).offsets == {0: 7}
    assert missing == ("What was from offset 4 up to 7 of partition 0 is in the log no more and stays missing.",)


@pytest.mark.parametrize(
    ("extents", "place"),
    [
        (log(2, 9, ("b", 0)), 2),
        (log(0, 9, ("a", 0), ("b", 3)), 3),
        (log(0, 3, ("a", 0)), 3),
        ({}, 0),
    ],
    ids=["another log", "a later life", "segments lost", "no log"],
)
def test_a_derived_table_begins_with_what_it_does_not_have(
    tmp_path: Path, extents: dict[int, LogExtent], place: int
) -> None:
    lake, table = made(tmp_path, 4, "a", "derived")
    done, missing = accept_log(lake, table, extents)
    assert (TableState.of(done).offsets, missing) == ({0: place}, ())
    check_against_log(TableState.of(done), extents)


def test_dead_letters_are_not_accepted(tmp_path: Path) -> None:
    lake, table = made(tmp_path, 4, "a", "dead-letter")
    with pytest.raises(IcebergError, match=r"--recreate --table frazil\.dead-letter` puts it aside"):
        accept_log(lake, table, log(0, 9, ("b", 0)))


def test_there_must_be_something_to_accept(tmp_path: Path) -> None:
    lake, table = made(tmp_path, 4, "a")
    with pytest.raises(IcebergError, match="agree"):
        accept_log(lake, table, log(0, 9, ("a", 0)))


@st.composite
def logs(draw: st.DrawFn) -> LogExtent:
    start, length = draw(st.integers(0, 20)), draw(st.integers(1, 20))
    borders = sorted(draw(st.sets(st.integers(0, start + length - 1), max_size=4)))
    names = draw(st.permutations("abcde"))
    history = ((names[0], 0), *zip(names[1:], borders, strict=False))
    return LogExtent(start, start + length, start + length, Epochs(history))


@given(logs(), st.integers(0, 45), st.sampled_from("abcdef"))
def test_what_is_shared_is_what_the_log_agrees_to(extent: LogExtent, offset: int, epoch: str) -> None:
    """If the table ended where the shared part ends, the log would accept it, and one row later it would not."""
    shared = _shared_end(epoch, offset, extent)
    assert 0 <= shared <= offset

    def agrees(at: int) -> bool:
        assert extent.epochs is not None
        try:
            extent.epochs.check(epoch, at, "")
        except FrazilError:
            return at == 0
        return at <= extent.end

    assert agrees(shared)
    if shared < offset:
        assert not agrees(shared + 1)
