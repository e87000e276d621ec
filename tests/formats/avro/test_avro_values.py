"""Whatever an Avro writer writes is decoded as it was meant, and other bytes do no harm."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from frazil.formats.avro import array_items, decoding
from tests.examples import examples
from tests.formats.avro.cases import Case, as_python, cases, decode, encode
from tests.formats.avro.reference import read

_SLOW = settings(max_examples=examples(100), suppress_health_check=list(HealthCheck))


@st.composite
def batches(draw: st.DrawFn) -> tuple[Case, list[Any]]:
    case = draw(cases())
    return case, draw(st.lists(case.values, min_size=1, max_size=8))


@contextmanager
def in_small_steps(rows: int, together: int) -> Iterator[None]:
    """Decodes a few records at a time, and items one by one after the first ones."""
    usual = decoding.ROWS_AT_ONCE, array_items.ITEMS_TOGETHER
    decoding.ROWS_AT_ONCE, array_items.ITEMS_TOGETHER = rows, together
    try:
        yield
    finally:
        decoding.ROWS_AT_ONCE, array_items.ITEMS_TOGETHER = usual


@_SLOW
@given(batches(), st.integers(1, 9), st.integers(0, 3))
def test_reads_what_was_written(batch: tuple[Case, list[Any]], rows: int, together: int) -> None:
    case, values = batch
    with in_small_steps(rows, together):
        found = decode(case.schema, encode(case.schema, values))
    assert found.faults == {}
    assert as_python(found.values) == [case.expected(value) for value in values]


@_SLOW
@given(
    st.lists(st.lists(st.lists(st.text(max_size=3) | st.none(), max_size=4), max_size=5), min_size=1, max_size=6),
    st.booleans(),
    st.integers(0, 3),
)
def test_items_come_in_blocks(arrays: list[list[list[str | None]]], sized: bool, together: int) -> None:
    """Blocks have any number of items, with and without their size in bytes."""
    kind = ["null", "string"]

    def block(items: list[str | None]) -> bytes:
        content = b"".join(encode(kind, items))
        return _long(-len(items)) + _long(len(content)) + content if sized else _long(len(items)) + content

    written = [b"".join(block(items) for items in blocks if items) + _long(0) for blocks in arrays]
    with in_small_steps(4, together):
        found = decode({"type": "array", "items": kind}, written)
        torn = decode({"type": "array", "items": kind}, [*written[:-1], written[-1][:-1]])
    assert found.faults == {}
    assert found.values.to_pylist() == [[item for items in blocks for item in items] for blocks in arrays]
    assert list(torn.faults) == [len(arrays) - 1]
    assert torn.values.equals(found.values[:-1])


@st.composite
def damages(draw: st.DrawFn, written: bytes) -> bytes:
    place = draw(st.integers(0, len(written)))
    some = draw(st.binary(max_size=11) | st.integers(-(2**63), 2**63 - 1).map(_long))
    match draw(st.sampled_from(["cut", "replace", "insert", "append", "all"])):
        case "cut":
            return written[:place]
        case "replace":
            return written[:place] + some + written[place + len(some) :]
        case "insert":
            return written[:place] + some + written[place:]
        case "append":
            return written + some
    return some


@_SLOW
@given(st.data(), batches(), st.integers(1, 9), st.integers(0, 3))
def test_damage_stays_where_it_is(
    data: st.DataObject, batch: tuple[Case, list[Any]], rows: int, together: int
) -> None:
    case, values = batch
    written = encode(case.schema, values)
    damaged = data.draw(st.sets(st.integers(0, len(values) - 1)))
    for place in damaged:
        written[place] = data.draw(damages(written[place]))
    with in_small_steps(rows, together):
        found = decode(case.schema, written)
    assert set(found.faults) <= damaged
    assert all(found.faults.values())
    good = [place for place in range(len(values)) if place not in found.faults]
    for place, value in zip(good, as_python(found.values), strict=True):
        # A record that was accepted has the value that the reference reader sees, including NaN.
        meant = read(case.schema, written[place]) if place in damaged else values[place]
        assert repr(value) == repr(case.expected(meant))


def _long(value: int) -> bytes:
    return encode("long", [value])[0]
