"""Answers are the same whether a query reads rows, finds what earlier queries kept, or reads page by page."""

from __future__ import annotations

from dataclasses import replace

import pyarrow as pa
from hypothesis import given
from hypothesis import strategies as st

from frazil.engine.memory import LruCache
from frazil.query.logql.blocks import Labels, Order, Selection
from frazil.query.logql.engine import Engine
from frazil.query.logql.metrics.matrix import SeriesLabels
from frazil.query.logql.source.label_rules import LabelRules
from frazil.query.logql.source.log_rows import LogRows
from frazil.scan.predicates.tree import Column, IsNull, Not, Or
from tests.formats.loki.support import message, rows_of
from tests.query.logql.source.support import placed
from tests.query.logql.table_scanner import TableScanner

MILLISECOND = 1_000_000
TENANTS = ("tenant-0", "tenant-1")
EVERY_ROW = Or((IsNull(Column("body")), Not(IsNull(Column("body")))))
"""With a predicate, a source reads rows and keeps nothing."""

_METADATA = st.dictionaries(st.sampled_from(["app", "k", "level", "detected_level"]), st.sampled_from(["", "x", "y"]))
_LABELS = st.dictionaries(st.sampled_from(["app", "k", "service_name"]), st.sampled_from("ab"), max_size=2)
_LINE = st.tuples(
    st.integers(0, 12).map(MILLISECOND.__mul__), st.sampled_from(["", "a=1", "level=error b=2"]), _METADATA
)
_STREAMS = st.lists(st.tuples(_LABELS, st.lists(_LINE, min_size=1, max_size=5)), min_size=1, max_size=4)
_RULES = st.sampled_from([LabelRules(), LabelRules(discover_services=False, discover_levels=False)])

METRICS = (
    "sum by (service_name) (count_over_time({S}[4ms]))",
    'sum by (detected_level) (count_over_time({S} | detected_level!="error" [4ms]))',
    "sum by (app, k) (count_over_time({S}[2ms]))",
    "sum by (k_extracted) (rate({S}[3ms] offset 2ms))",
    'sum(count_over_time({S} | k="x" or level="y" [8ms]))',
    "sum without (app) (count_over_time({S}[4ms]))",
    "sum by (app) (bytes_over_time({S}[4ms]))",
    "sum by (k) (sum_over_time({S} | logfmt | unwrap a [4ms]))",
    'sum by (level, level_extracted) (count_over_time({S} |= "=" | logfmt [4ms]))',
)
SELECTORS = ('{service_name=~".+"}', '{app="a"}', '{k=~"a|", app=~"a|b"}', '{k="", service_name=~".+"}')

Line = tuple[int, str, dict[str, str]]
Stream = tuple[dict[str, str], list[Line]]
Samples = dict[SeriesLabels, list[float | None]]


def samples(source: LogRows, query: str) -> Samples:
    found = Engine(source).range(query, MILLISECOND, 14 * MILLISECOND, 3 * MILLISECOND).matrix
    return {
        labels: [value if there else None for value, there in zip(values, present, strict=True)]
        for labels, values, present in zip(found.series, found.values.tolist(), found.present.tolist(), strict=True)
    }


def stored(*tenants: list[Stream]) -> pa.Table:
    return placed(rows_of(*(message(*streams) for streams in tenants)).batch)


_QUERIES = st.lists(
    st.builds(
        lambda query, selector: query.replace("{S}", selector), st.sampled_from(METRICS), st.sampled_from(SELECTORS)
    ),
    min_size=1,
    max_size=3,
)


@given(_STREAMS, _STREAMS, _RULES, _QUERIES, st.booleans())
def test_what_is_kept_changes_no_answer(
    one: list[Stream],
    other: list[Stream],
    rules: LabelRules,
    queries: list[str],
    has_room: bool,
) -> None:
    scanner = TableScanner(stored(one, other))
    cache = LruCache(lambda: 1 << 24 if has_room else 500)
    for _ in ("cold", "warm"):
        for tenants in ((TENANTS[0],), (TENANTS[1],), TENANTS):
            for query in queries:
                kept = LogRows(scanner, tenants, rules, cache=cache)
                read = LogRows(scanner, tenants, rules, where=EVERY_ROW)
                assert samples(kept, query) == samples(read, query), query


@given(_STREAMS, st.integers(1, 3), st.sampled_from(["newest first", "oldest first"]))
def test_pages_have_each_line_once_and_in_order(streams: list[Stream], first_rows: int, order: Order) -> None:
    source = LogRows(TableScanner(stored(streams)), (TENANTS[0],))
    whole = Selection(MILLISECOND, 12 * MILLISECOND, matchers=(), order=order)
    assert shown(source, replace(whole, first_rows=first_rows)) == shown(source, whole)


def shown(source: LogRows, selection: Selection) -> list[tuple[int, str, Labels]]:
    return [
        (time_ns, line, block.streams[code])
        for block in source.select(selection)
        for time_ns, line, code in zip(
            block.times_ns.tolist(), block.lines.to_pylist(), block.stream_codes.tolist(), strict=True
        )
    ]


def test_pages_go_on_within_one_moment() -> None:
    lines: list[Line] = [(1 + number // 50, f"line {number}", {}) for number in range(200)]
    source = LogRows(TableScanner(stored([({"app": "a"}, lines)])), (TENANTS[0],))
    orders: tuple[Order, ...] = ("newest first", "oldest first")
    for order in orders:
        found = shown(source, Selection(0, 9, matchers=(), order=order, first_rows=3))
        numbers = range(200) if order == "oldest first" else range(199, -1, -1)
        assert [line for _, line, _ in found] == [f"line {number}" for number in numbers]
