"""Maps that are the same have the same number, however they are found to be."""

from __future__ import annotations

import pyarrow as pa
from hypothesis import given
from hypothesis import strategies as st

from frazil.query.logql.source.map_columns import MapEntries, run_starts

_MAPS = st.lists(
    st.none() | st.dictionaries(st.sampled_from("abc"), st.sampled_from(["", "x", "y"]), max_size=3), max_size=12
) | st.lists(st.fixed_dictionaries({"a": st.sampled_from("xy"), "b": st.sampled_from("xy")}), max_size=12)


def column(maps: list[dict[str, str] | None]) -> pa.MapArray:
    kind = pa.map_(pa.string(), pa.string())
    return pa.array([None if each is None else list(each.items()) for each in maps], kind)


@given(_MAPS, st.integers(0, 3))
def test_distinct_maps(maps: list[dict[str, str] | None], skipped: int) -> None:
    entries = MapEntries(column(maps)[skipped:])
    maps = maps[skipped:]
    numbers, firsts = entries.distinct()
    for row, number in enumerate(numbers.tolist()):
        assert (maps[row] or {}) == (maps[firsts[number]] or {}) == entries.map_of(row)
    assert len(firsts) == len({tuple(sorted((each or {}).items())) for each in maps})


@given(_MAPS, st.integers(0, 3))
def test_runs_and_keys(maps: list[dict[str, str] | None], skipped: int) -> None:
    given = column(maps)[skipped:]
    maps = maps[skipped:]
    starts = run_starts(given)
    if starts is not None:
        written = [list((each or {}).items()) for each in maps]
        expected = [row for row in range(len(maps)) if not row or written[row] != written[row - 1]]
        assert starts.tolist() == expected
    entries = MapEntries(given)
    for key in "abc":
        found = entries.column(key)
        texts = [None if code < 0 else found.texts[code] for code in found.codes]
        assert texts == [(each or {}).get(key) for each in maps]
