"""With a registry, a batch may have messages of several schemas, which their indexes tell apart."""

from __future__ import annotations

import pickle
from pathlib import Path

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from frazil.config.sections.kafka import RegistryConfig
from frazil.config.sections.retry import BreakerConfig
from frazil.formats.protobuf import ProtobufDecoder, message_of
from frazil.formats.protobuf.message_indexes import MAX_LEVELS, by_message
from frazil.formats.registry.client import Registry
from frazil.formats.registry.schema import RegisteredSchema
from frazil.formats.registry.wire import cut
from frazil.formats.values import Payloads
from tests.formats.protobuf.samples import (
    EVERYTHING,
    INNER,
    OTHER,
    SCHEMA,
    SHARED,
    TEXT,
    message_class,
    wired,
    zigzags,
)
from tests.servers.registry import RegistryServer

FIRST = 'syntax = "proto3"; message Order { int64 id = 1; string item = 2; }'
SECOND = 'syntax = "proto3"; message Order { int64 id = 1; string item = 2; optional double price = 3; }'


@pytest.fixture
def schemas(registry: RegistryServer, tmp_path: Path) -> Registry:
    return Registry(RegistryConfig(url=registry.url), tmp_path, BreakerConfig())


def test_messages_and_versions_of_one_batch(registry: RegistryServer, schemas: Registry) -> None:
    registry.register("shared-points", SHARED, "PROTOBUF")
    reference = {"name": "shared/point.proto", "subject": "shared-points", "version": 1}
    sample = registry.register("messages-sample", TEXT, "PROTOBUF", references=[reference])
    first = registry.register("messages-value", FIRST, "PROTOBUF")
    second = registry.register("messages-value", SECOND, "PROTOBUF")
    avro = registry.register("messages-avro", '"string"', "AVRO")
    everything = message_class(SCHEMA, EVERYTHING)(int32=3, words=["a"])
    old = message_class(RegisteredSchema("PROTOBUF", FIRST), (0,))(id=1, item="x")
    new = message_class(RegisteredSchema("PROTOBUF", SECOND), (0,))(id=2, price=0)
    values = [
        wired(sample, EVERYTHING, everything),
        wired(first, (0,), old),
        wired(second, (0,), new),
        None,
        wired(sample, INNER, message_class(SCHEMA, INNER)(text="inner")),
        wired(sample, OTHER, message_class(SCHEMA, OTHER)(number=5)),
        wired(second, (0,), b"\x08"),
        wired(second, (1,), new),
        wired(second, (0, 0), new),
        wired(avro, (0,), new),
        wired(123_456_789, (0,), new),
        wired(first, (0,), new),
        b"\0\0\0\0",
        wired(first, (0,), b"")[:5],
        wired(second, (0,), b""),
    ]
    decoder = pickle.loads(pickle.dumps(ProtobufDecoder(schemas, "messages-value")))
    payloads = Payloads(pa.array(values, pa.binary()))
    decoded = decoder.decode(payloads, None)
    rows = {
        place: row
        for part in decoded.columns
        for place, row in zip(part.positions, part.column.to_pylist(), strict=True)
    }
    assert rows[1] == {"id": 1, "item": "x"}
    assert rows[11] == {"id": 2, "item": ""}
    assert rows[2] == {"id": 2, "item": "", "price": 0.0}
    assert rows[14] == {"id": 0, "item": "", "price": None}
    assert rows[4] == {"text": "inner", "children": []}
    assert rows[5] == {"number": 5}
    assert rows[0]["words"] == ["a"]
    assert sorted(rows) == [0, 1, 2, 4, 5, 11, 14]
    assert sorted(decoded.faults) == [6, 7, 8, 9, 10, 12, 13]
    assert "no message at the indexes [1]" in decoded.faults[7]
    assert "no message at the indexes [0, 0]" in decoded.faults[8]
    assert "not Protobuf" in decoded.faults[9]
    assert "123456789 is not in the registry" in decoded.faults[10]
    assert "which message" in decoded.faults[13]
    assert list(decoder.survey(payloads, None)) == [part.column.type for part in decoded.columns]
    assert list(decoder.kinds()) == [message_of(RegisteredSchema("PROTOBUF", SECOND), (0,)).kind]
    # It is not known beforehand which of several messages records will be.
    assert list(ProtobufDecoder(schemas, "messages-sample").kinds()) == []
    assert list(ProtobufDecoder(schemas, "no-such-subject").kinds()) == []


def test_indexes_in_a_header(registry: RegistryServer, schemas: Registry) -> None:
    number = registry.register("headers-value", FIRST + " message Other { int32 number = 1; }", "PROTOBUF")
    prefix = b"\0" + number.to_bytes(4, "big")
    headers = pa.array([prefix + zigzags([1, 1]), prefix + b"\0", None, prefix, prefix + b"\2"], pa.binary())
    value = b"\x08\x05"
    values = pa.array([value, value, prefix + zigzags([1, 1]) + value, value, value], pa.binary())
    decoded = ProtobufDecoder(schemas, "headers-value").decode(Payloads(values, headers), None)
    rows = {
        place: row
        for part in decoded.columns
        for place, row in zip(part.positions, part.column.to_pylist(), strict=True)
    }
    assert rows == {0: {"number": 5}, 1: {"id": 5, "item": ""}, 2: {"number": 5}}
    assert sorted(decoded.faults) == [3, 4]


@given(
    st.lists(st.tuples(st.lists(st.integers(0, 300), min_size=1, max_size=4), st.binary(max_size=3)), max_size=8),
    st.booleans(),
)
def test_any_indexes_are_read(written: list[tuple[list[int], bytes]], long: bool) -> None:
    """The indexes of the first message may be written out as well."""
    values = [
        b"\0\0\0\0\7" + (b"\0" if path == [0] and not long else zigzags([len(path), *path])) + rest
        for path, rest in written
    ]
    groups, _ = cut(Payloads(pa.array(values, pa.binary())))
    faults: dict[int, str] = {}
    found = {
        int(group.places[at]): (list(path), group.data[start : group.ends[at]].tobytes())
        for group in groups
        for path, chosen, starts in by_message(group, faults)
        for at, start in zip(chosen, starts, strict=True)
    }
    assert not faults
    assert found == dict(enumerate((path, rest) for path, rest in written))


@pytest.mark.parametrize(
    "indexes",
    [
        b"",
        b"\x02",
        b"\x02\x80",
        b"\x01",
        b"\x02\x01",
        b"\xff" * 10,
        zigzags([MAX_LEVELS + 1]) + b"\0" * 100,
        b"\x04\0",
    ],
)
def test_indexes_that_are_none(indexes: bytes) -> None:
    values = [b"\0\0\0\0\7" + zigzags([1, 2]), b"\0\0\0\0\7" + indexes]
    (group,), _ = cut(Payloads(pa.array(values, pa.binary())))
    faults: dict[int, str] = {}
    assert [(path, chosen.tolist()) for path, chosen, _ in by_message(group, faults)] == [((2,), [0])]
    assert list(faults) == [1]
