from __future__ import annotations

import pyarrow as pa
from hypothesis import given
from hypothesis import strategies as st

from frazil.hot import runs
from frazil.hot.keys import hash_key
from frazil.hot.runs import Run, build, candidates, merge, settled

BATCH = st.lists(st.sampled_from([None, b"a", b"b", b"c"]), min_size=1, max_size=6)


def chain(batches: list[list[bytes | None]], first: int = 0) -> list[Run]:
    """A run for each batch, one after the other."""
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
    kept: tuple[Run, ...] = ()
    end = 0
    for size in sizes:
        kept = settled((*kept, build(end, pa.array([b"k"] * size))), 0)
        end += size
        assert [run.start for run in kept] == [0, *(run.end for run in kept[:-1])]
        assert len(kept) <= 12
    assert list(candidates(kept, hash_key(b"k"))) == list(range(end))[::-1]


def test_a_run_is_small_beside_its_partition() -> None:
    """So that little stays in memory of what is gone, and one merge takes milliseconds."""
    kept: tuple[Run, ...] = ()
    rows = 1 << 12
    batch = pa.array([f"{i}".encode() for i in range(rows)])
    for i in range(64):
        kept = settled((*kept, build(i * rows, batch)), 0)
        assert max(run.rows for run in kept) <= max((i + 1) * rows // runs.SHARE, runs.SMALLEST)
    assert len(kept) < 24
