"""Tests that a scan gives the wanted rows, each once and in order, wherever they are."""

from __future__ import annotations

import tempfile
from dataclasses import replace
from pathlib import Path
from typing import Any

import polars as pl
import pyarrow as pa
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from frazil.errors import CallError, TopicNotFound
from frazil.scan.interface import Order, ScanRequest
from frazil.scan.predicates.tree import And, Column, Comparison, Contains, In, IsNull, Not, Or, Predicate, StartsWith
from frazil.scan.scanner import TopicScanner
from tests.examples import examples
from tests.query.support import World

TOPIC = "orders"
TIME = "publish_time"
SCHEMA = pa.schema(
    [
        ("id", pa.int64()),
        ("who", pa.string()),
        (TIME, pa.timestamp("ns", "UTC")),
        ("text", pa.string()),
        ("labels", pa.map_(pa.string(), pa.string())),
    ]
)
TENANTS = {TOPIC: {"tenant_column": "who"}}
Row = dict[str, Any]

times = st.one_of(
    st.integers(-5, 5), st.integers(0, 3).map(lambda n: n * 1000), st.integers(0, 2**62), st.integers(-(2**60), 0)
)
rows = st.fixed_dictionaries(
    {
        "who": st.sampled_from(["a", "b", "ab"]),
        TIME: st.one_of(st.none(), times, times, times),
        "text": st.one_of(st.none(), st.text("abé%_", max_size=4)),
        "labels": st.one_of(st.none(), st.dictionaries(st.sampled_from("kl"), st.sampled_from("xy"))),
    }
)
leaves = st.one_of(
    st.builds(Comparison, st.just(Column("id")), st.sampled_from(["==", "<", ">="]), st.integers(0, 40)),
    st.builds(In, st.just(Column("text")), st.frozensets(st.text("abé", max_size=2))),
    st.just(IsNull(Column("text"))),
    st.builds(StartsWith, st.just(Column("text")), st.text("ab", max_size=2)),
    st.builds(Contains, st.just(Column("text")), st.text("ab", max_size=2)),
)
predicates = st.recursive(
    leaves,
    lambda inner: st.one_of(
        st.builds(Not, inner),
        st.builds(And, st.lists(inner, max_size=3).map(tuple)),
        st.builds(Or, st.lists(inner, max_size=3).map(tuple)),
    ),
    max_leaves=4,
)
requests = st.builds(
    ScanRequest,
    topic=st.just(TOPIC),
    tenants=st.one_of(st.none(), st.lists(st.sampled_from(["a", "b", "c"]), max_size=2, unique=True).map(tuple)),
    start_ns=st.one_of(st.none(), times),
    end_ns=st.one_of(st.none(), times),
    where=st.one_of(st.none(), predicates),
    columns=st.one_of(st.none(), st.just(("id",)), st.just(("text", "id"))),
    order=st.sampled_from(["none", "oldest first", "newest first"]),
    limit=st.one_of(st.none(), st.integers(0, 6)),
)


def batch_of(given: list[Row], first: int = 0) -> pa.RecordBatch:
    numbered = [{"id": first + number, **row} for number, row in enumerate(given)]
    table = pa.Table.from_pylist(
        [{**row, "labels": None if row["labels"] is None else list(row["labels"].items())} for row in numbered],
        schema=SCHEMA.set(2, pa.field(TIME, pa.int64())),
    )
    return (
        table.set_column(2, SCHEMA.field(2), table[TIME].cast(SCHEMA.field(2).type)).combine_chunks().to_batches()[0]
    )


def truth(predicate: Predicate, row: Row) -> bool | None:
    """Evaluates a predicate in plain Python, with unknown as None."""
    match predicate:
        case And(children):
            found = [truth(child, row) for child in children]
            return False if False in found else None if None in found else True
        case Or(children):
            found = [truth(child, row) for child in children]
            return True if True in found else None if None in found else False
        case Not(child):
            inner = truth(child, row)
            return None if inner is None else not inner
        case IsNull(Column(name)):
            return row[name] is None
    assert isinstance(predicate.term, Column)
    value = row[predicate.term.name]
    if value is None:
        return None
    match predicate:
        case Comparison(_, operator, wanted):
            return bool({"==": value == wanted, "<": value < wanted, ">=": value >= wanted}[operator])
        case In(_, values):
            return value in values
        case StartsWith(_, prefix):
            return bool(value.startswith(prefix))
        case Contains(_, text):
            return text in value
    raise AssertionError(predicate)


def expected(request: ScanRequest, given: list[Row]) -> list[int]:
    """Returns the ids of the wanted rows. Their order is that of time, then of the log."""
    kept = []
    for number, row in enumerate(given):
        time = row[TIME]
        limited = request.start_ns is not None or request.end_ns is not None
        if request.tenants is not None and row["who"] not in request.tenants:
            continue
        if limited and (time is None or not _within(request, time)):
            continue
        if request.where is None or truth(request.where, {"id": number, **row}) is True:
            kept.append((-(2**70) if time is None else time, number))
    if request.order != "none":
        kept.sort(reverse=request.order == "newest first")
    ids = [number for _, number in kept]
    return ids if request.limit is None else ids[: request.limit]


def _within(request: ScanRequest, time: int) -> bool:
    return (request.start_ns is None or time >= request.start_ns) and (
        request.end_ns is None or time < request.end_ns
    )


def ids_of(scan: Any) -> list[int]:
    found: list[int] = scan.table()["id"].to_pylist()
    return found


def check(scanner: TopicScanner, request: ScanRequest, given: list[Row]) -> None:
    found, wanted = ids_of(scanner.scan(request)), expected(request, given)
    if request.order != "none":
        assert found == wanted
    elif request.limit is None:
        assert sorted(found) == wanted
    else:
        assert len(found) == len(wanted)
        assert set(found) <= set(expected(replace(request, limit=None), given))


@settings(max_examples=examples(12), suppress_health_check=[HealthCheck.too_slow])
@given(st.lists(rows, min_size=1, max_size=40), st.data())
def test_the_answer_does_not_depend_on_where_rows_are(given: list[Row], data: st.DataObject) -> None:
    wanted = data.draw(st.lists(requests, min_size=4, max_size=8))
    moved = data.draw(st.integers(0, len(given)))
    sealed = data.draw(st.integers(moved, len(given)))
    with tempfile.TemporaryDirectory() as folder, World(Path(folder), topics=TENANTS) as world:
        scanner = TopicScanner(world.config)
        world.fill(TOPIC, batch_of(given), moved, sealed)
        for request in wanted:
            check(scanner, request, given)
        world.seal(TOPIC)
        world.move(TOPIC)
        for request in wanted:
            check(scanner, request, given)
        world.compact(TOPIC)
        for request in wanted:
            check(scanner, request, given)
        scanner.close()


def test_late_and_backfilled_rows_are_among_the_newest(tmp_path: Path) -> None:
    given: list[Row] = []
    with World(tmp_path, topics=TENANTS) as world:
        scanner = TopicScanner(world.config)
        # Each run of rows has another age than its place says: the newest of all are in the first file.
        for start in (9000, 100, 5000, 200, 8990, 50):
            run = [{"who": "a", TIME: start + at * 7, "text": f"row {start}", "labels": None} for at in range(30)]
            world.append(TOPIC, batch_of(run, len(given)))
            given += run
            for limit in (1, 5, 40, None):
                for order in ("newest first", "oldest first"):
                    check(scanner, ScanRequest(TOPIC, ("a",), order=_order(order), limit=limit), given)
            if start in (9000, 100, 5000):
                world.seal(TOPIC)
            if start in (9000, 5000):
                world.move(TOPIC)
        scanner.close()


def _order(text: str) -> Order:
    return "newest first" if text == "newest first" else "oldest first"


def test_a_scan_that_has_enough_reads_no_other_file(tmp_path: Path) -> None:
    with World(tmp_path) as world:
        scanner = TopicScanner(world.config)
        for number in range(5):
            run = [{"who": "a", TIME: number * 1000 + at, "text": "x", "labels": None} for at in range(10)]
            world.append(TOPIC, batch_of(run, number * 10))
            world.seal(TOPIC)
            world.move(TOPIC)
        newest = scanner.scan(ScanRequest(TOPIC, None, order="newest first", limit=3))
        assert ids_of(newest) == [49, 48, 47]
        assert newest.statistics.rows_read == 10
        assert newest.statistics.rows_out == 3
        for text, expected in (("newest first", {3, 4}), ("oldest first", {0, 1})):
            scan = scanner.scan(ScanRequest(TOPIC, None, order=_order(text), max_files=2))
            assert {row // 10 for row in ids_of(scan)} == expected
            assert (scan.statistics.files, scan.statistics.files_unread) == (2, 3)
        assert scanner.scan(ScanRequest(TOPIC, None, max_files=5)).statistics.files_unread == 0
        scanner.close()


def test_tenants_never_see_each_other_with_warm_memory(tmp_path: Path) -> None:
    given: list[Row] = [
        {"who": "ab"[at % 2], TIME: at, "text": f"same {at // 2}", "labels": {"k": "ab"[at % 2]}} for at in range(90)
    ]
    with World(tmp_path, topics=TENANTS) as world:
        world.fill(TOPIC, batch_of(given), moved=30, sealed=60)
        scanner = TopicScanner(world.config)
        keys: dict[str, set[object]] = {}
        for _ in range(2):
            for tenant in ("a", "b"):
                scan = scanner.scan(ScanRequest(TOPIC, (tenant,)))
                assert set(scan.table()["who"].to_pylist()) == {tenant}
                units = list(scan.units())
                for unit in units:
                    seen = unit.read(("who",), filtered=False)
                    assert set(seen.column("who").to_pylist()) == {tenant}
                keys.setdefault(tenant, set()).update(unit.key for unit in units)
                scans = scanner.scan(ScanRequest(TOPIC, (tenant,), where=Comparison(Column("who"), "!=", tenant)))
                assert len(scans.table()) == 0
        assert not keys["a"] & keys["b"]
        assert len(scanner.scan(ScanRequest(TOPIC, ("a", "b"))).table()) == 90
        assert len(scanner.scan(ScanRequest(TOPIC, ())).table()) == 0
        scanner.close()


def test_a_scan_can_be_read_again_in_units_and_lazily(tmp_path: Path) -> None:
    given: list[Row] = [{"who": "a", TIME: at, "text": "x", "labels": None} for at in range(90)]
    with World(tmp_path) as world:
        world.fill(TOPIC, batch_of(given), moved=30, sealed=60)
        scanner = TopicScanner(world.config)
        scan = scanner.scan(ScanRequest(TOPIC, None, where=Comparison(Column("id"), ">=", 25)))
        world.append(TOPIC, batch_of(given, 90))
        for _ in range(2):
            assert sorted(ids_of(scan)) == list(range(25, 90))
            units = list(scan.units())
            assert sum(unit.rows for unit in units) == 90
            found = pa.Table.from_batches([unit.read(("id",)) for unit in units])
            assert sorted(found["id"].to_pylist()) == list(range(25, 90))
        assert scan.offsets == {0: 90}
        frame = scan.lazy().filter(pl.col("id") % 2 == 0).select("text").collect()
        assert frame.columns == ["text"]
        assert len(frame) == 32
        assert scan.lazy().select(pl.len()).collect().item() == 65
        assert len(scanner.scan(ScanRequest(TOPIC, None, columns=())).table()) == 180
        scanner.close()


def test_a_condition_without_columns_is_applied(tmp_path: Path) -> None:
    given: list[Row] = [{"who": "a", TIME: at, "text": "x", "labels": None} for at in range(30)]
    with World(tmp_path) as world:
        world.fill(TOPIC, batch_of(given), moved=10, sealed=20)
        scanner = TopicScanner(world.config)
        for where, count in ((Or(()), 0), (And(()), 30), (Not(Or(())), 30)):
            for columns in ((), ("id",), None):
                assert len(scanner.scan(ScanRequest(TOPIC, None, where=where, columns=columns)).table()) == count
            ordered = scanner.scan(ScanRequest(TOPIC, None, where=where, order="newest first"))
            assert len(ordered.table()) == count
        scanner.close()


def test_what_cannot_be_scanned_is_said(tmp_path: Path) -> None:
    with World(tmp_path) as world:
        world.append(TOPIC, pa.record_batch({"id": [1]}))
        scanner = TopicScanner(world.config)
        with pytest.raises(TopicNotFound, match=r"Did you mean 'orders'\?"):
            scanner.scan(ScanRequest("order", None))
        with pytest.raises(CallError, match="no column 'ids'"):
            scanner.scan(ScanRequest(TOPIC, None, columns=("ids",)))
        with pytest.raises(CallError, match="no column of time"):
            scanner.scan(ScanRequest(TOPIC, None, order="newest first"))
        with pytest.raises(CallError, match="no column 'ids'"):
            scanner.scan(ScanRequest(TOPIC, None, where=IsNull(Column("ids"))))
        with pytest.raises(CallError, match="limit"):
            scanner.scan(ScanRequest(TOPIC, None, limit=-1))
        scanner.close()
