from __future__ import annotations

import pyarrow as pa
from hypothesis import given
from hypothesis import strategies as st

from frazil.hot import key_index
from frazil.hot.key_index import IndexRun, build, candidates, merge, merge_due
from frazil.hot.keys import hash_key

BATCH = st.lists(st.sampled_from([None, b"a", b"b", b"c"]), min_size=1, max_size=6)


def chain(batches: list[list[bytes | None]], first: int = 0) -> list[IndexRun]:
    """Makes a run for each batch, one after the other."""
    made = []
    for batch in batches:
        made.append(build(first, pa.array(batch, pa.binary())))
        first += len(batch)
    return made


@given(st.lists(BATCH, max_size=9), st.integers(0, 100), st.integers(0, 40))
def test_merged_or_not_the_same_rows_are_found(batches: list[list[bytes | None]], first: int, gone: int) -> None:
    made = chain(batches, first)
    keys = [key for batch in batches for key in batch]
    start = min(first + gone, made[-1].end - 1) if made else first
    merged = [merge(made, start)] if made else []
    for key in (b"a", b"b", b"c", b"d"):
        expected = [first + i for i, each in reversed(list(enumerate(keys))) if each == key]
        assert list(candidates(made, hash_key(key))) == expected
        assert list(candidates(merged, hash_key(key))) == [offset for offset in expected if offset >= start]


@given(st.lists(st.integers(1, 40), max_size=200))
def test_there_are_never_many_runs_and_none_is_lost(sizes: list[int]) -> None:
    buffered: tuple[IndexRun, ...] = ()
    end = 0
    for size in sizes:
        buffered = merge_due((*buffered, build(end, pa.array([b"k"] * size))), 0)
        end += size
        assert [run.start for run in buffered] == [0, *(run.end for run in buffered[:-1])]
        assert len(buffered) <= 12
    assert list(candidates(buffered, hash_key(b"k"))) == list(range(end))[::-1]


def test_a_run_is_small_beside_its_partition() -> None:
    """So little stays in memory of what is gone, and a merge takes milliseconds."""
    buffered: tuple[IndexRun, ...] = ()
    rows = 1 << 12
    batch = pa.array([f"{i}".encode() for i in range(rows)])
    for i in range(64):
        buffered = merge_due((*buffered, build(i * rows, batch)), 0)
        assert max(run.rows for run in buffered) <= max((i + 1) * rows // key_index.SHARE, key_index.SMALLEST)
    assert len(buffered) < 24
