"""Unusual and invalid Avro, written by hand: blocks, long arrays, bombs, and the reasons that people get to read."""

from __future__ import annotations

import math
import random
import struct
from typing import Any

import pytest

from tests.formats.avro.cases import as_python, decode, encode

EVENTS = {
    "type": "record",
    "name": "R",
    "fields": [
        {"name": "id", "type": "long"},
        {
            "name": "items",
            "type": {
                "type": "array",
                "items": {
                    "type": "record",
                    "name": "Item",
                    "fields": [
                        {"name": "name", "type": "string"},
                        {"name": "more", "type": ["null", "double", {"type": "map", "values": "bytes"}]},
                    ],
                },
            },
        },
    ],
}


def long(value: int) -> bytes:
    return encode("long", [value])[0]


def array(kind: str) -> dict[str, str]:
    return {"type": "array", "items": kind}


def test_blocks() -> None:
    """The array comes in several blocks, with and without their size."""
    written = long(2) + long(1) + long(2) + long(-2) + long(3) + long(300) + long(4) + long(1) + long(5) + long(0)
    assert decode(array("int"), [written]).values.to_pylist() == [[1, 2, 300, 4, 5]]
    entry = b"\x02a" + long(7)
    written = long(-1) + long(len(entry)) + entry + long(1) + b"\x02b" + long(8) + long(0)
    assert decode({"type": "map", "values": "int"}, [written]).values.to_pylist() == [[("a", 7), ("b", 8)]]


def test_long_arrays_among_short_ones(seed: int) -> None:
    rng = random.Random(seed)

    def item() -> dict[str, Any]:
        more = rng.choice([None, ("double", rng.random()), ("map", {"k": bytes(rng.randrange(100))})])
        return {"name": "n" * rng.randrange(200), "more": more}

    lengths = [rng.randrange(5) for _ in range(300)]
    lengths[17], lengths[205] = 20_000, 3_000
    values: list[dict[str, Any]] = [
        {"id": number, "items": [item() for _ in range(length)]} for number, length in enumerate(lengths)
    ]
    found = decode(EVENTS, encode(EVENTS, values))

    def expected(item: dict[str, Any]) -> dict[str, Any]:
        match item["more"]:
            case ("double", value):
                return {"name": item["name"], "more": {"double": value, "map": None}}
            case ("map", value):
                return {"name": item["name"], "more": {"double": None, "map": [*value.items()]}}
        return item

    assert as_python(found.values) == [
        {"id": value["id"], "items": [expected(item) for item in value["items"]]} for value in values
    ]
    # The last byte of one record is gone: only that record is lost.
    written = encode(EVENTS, values)
    written[17] = written[17][:-2]
    damaged = decode(EVENTS, written)
    assert list(damaged.faults) == [17]
    assert damaged.values.equals(found.values.filter([number != 17 for number in range(300)]))


def test_very_many_blocks() -> None:
    written = (long(1) + b"\x02a") * 200_000 + long(0)
    found = decode(array("string"), [written, written[:-1], long(0)])
    assert [len(each) for each in found.values] == [200_000, 0]
    assert list(found.faults) == [1]
    emptied = decode(array("null"), [long(1) * 64 + long(0), long(1) * 65 + long(0)])
    assert [len(each) for each in emptied.values] == [64]
    assert list(emptied.faults) == [1]


HUGE = 2**62


@pytest.mark.parametrize(
    ("schema", "written", "reason"),
    [
        (array("null"), long(HUGE) + long(0), "impossible number of items"),
        (array("null"), (long(64) * 100) + long(0), "impossible number of items"),
        (array("int"), long(HUGE) + bytes(10), "impossible number of items"),
        (array("int"), long(-HUGE) + long(1) + bytes(10), "impossible number of items"),
        (array("int"), long(-(2**63)) + long(1) + bytes(10), "impossible number of items"),
        (array("double"), long(2) + bytes(15), "impossible number of items"),
        ({"type": "map", "values": "null"}, long(20) + bytes(10), "impossible number of items"),
        (array("string"), long(2) + b"\x02a" + long(HUGE), r"the value\[\] has an impossible length"),
        ("string", long(-1), "impossible length"),
        ("string", long(4) + b"abc", "impossible length"),
        ("bytes", long(HUGE) + b"abc", "impossible length"),
        ("string", long(2) + b"\xc3\x28", "not UTF-8"),
        ("string", b"", "ends within the value"),
        ("double", bytes(7), "ends within the value"),
        ("long", b"\x80", "ends within the value"),
        ("long", b"\xff" * 9 + b"\x02", "more than 64 bits"),
        ("long", b"\x80" * 20, "more than 64 bits"),
        ("int", long(2**31), "out of range"),
        ("int", long(1) + b"\0", "more bytes than its schema says"),
        ("null", b"\0", "more bytes than its schema says"),
        ("boolean", b"\x02", "neither true nor false"),
        (["null", "int"], long(2), "none of the 2 types"),
        (["null", "int", "string"], long(-1), "none of the 3 types"),
        ({"type": "enum", "name": "E", "symbols": ["A"]}, long(1), "none of its 1 symbols"),
        ({"type": "int", "logicalType": "time-millis"}, long(86_400_000), "out of range"),
        ({"type": "bytes", "logicalType": "decimal", "precision": 2}, long(1) + b"\x64", "more digits"),
        ({"type": "bytes", "logicalType": "decimal", "precision": 38}, long(17) + b"\1" + bytes(16), "more digits"),
        ({"type": "bytes", "logicalType": "decimal", "precision": 38}, long(99) + bytes(99), "more digits"),
        (EVENTS, long(1) + long(1) + b"\x02n" + long(1) + bytes(3), r"it ends within items\[\]\.more\.double"),
    ],
)
def test_reasons(schema: Any, written: bytes, reason: str) -> None:
    found = decode(schema, [written])
    assert list(found.faults) == [0]
    assert len(found.values) == 0
    with pytest.raises(ValueError, match=reason):
        raise ValueError(found.faults[0])


def test_numbers_that_have_no_equal() -> None:
    found = decode("double", [struct.pack("<d", math.nan), struct.pack("<d", -0.0)])
    assert [math.isnan(found.values[0].as_py()), str(found.values[1])] == [True, "-0.0"]


def test_a_decimal_without_bytes_is_zero() -> None:
    """Some writers write it this way."""
    found = decode({"type": "bytes", "logicalType": "decimal", "precision": 3}, [long(0)])
    assert found.values.to_pylist() == [0]


def test_nothing() -> None:
    assert decode(EVENTS, []).values.to_pylist() == []
