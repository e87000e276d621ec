"""Labels in columns behave as sets of pairs do."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from frazil.query.promql.series.labels import LabelTable, concatenate

ROWS = st.lists(st.dictionaries(st.sampled_from("abcd"), st.sampled_from(["", "x", "y", "é", "10"])), max_size=12)


def plain(row: dict[str, str]) -> tuple[tuple[str, str], ...]:
    return tuple(sorted((name, value) for name, value in row.items() if value))


@given(ROWS)
def test_order_is_that_of_sorted_pairs(rows: list[dict[str, str]]) -> None:
    table = LabelTable.of(rows)
    assert [plain(table.row(at)) for at in table.order()] == sorted(map(plain, rows))


@given(ROWS, st.sets(st.sampled_from("abcde")))
def test_groups_are_those_of_equal_labels(rows: list[dict[str, str]], names: set[str]) -> None:
    table = LabelTable.of(rows)
    first, group = table.groups(names)
    keys = [tuple(row.get(name) or "" for name in sorted(names)) for row in rows]
    assert [keys.index(key) for key in dict.fromkeys(keys)] == first.tolist()
    assert [keys[first[number]] for number in group.tolist()] == keys


@given(ROWS, ROWS)
def test_tables_can_stand_below_each_other(one: list[dict[str, str]], other: list[dict[str, str]]) -> None:
    both = concatenate([LabelTable.of(one), LabelTable.of(other)])
    assert list(map(plain, both.rows())) == list(map(plain, one + other))
    assert len(set(both.keys().tolist())) == len(set(map(plain, one + other)))
