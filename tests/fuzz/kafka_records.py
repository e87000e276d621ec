"""Makes Kafka records of every format, good and damaged: keys, values, headers, and the wire format of a registry."""

from __future__ import annotations

import json
import struct
import uuid
from collections.abc import Callable, Iterator, Sequence
from functools import cached_property
from pathlib import Path
from typing import Any, NamedTuple

import pyarrow as pa
from google.protobuf.message_factory import GetMessageClass

from frazil.config.model import Config
from frazil.config.sections.kafka import FormatConfig, KafkaConfig, RegistryConfig
from frazil.formats import kafka
from frazil.formats.decoding import Decoder
from frazil.formats.protobuf.compiling import compile_files
from frazil.formats.records import KEY_SCHEMA_ID, VALUE_SCHEMA_ID
from frazil.formats.topic_decoder import open_decoder
from tests.formats.avro.cases import encode
from tests.formats.json_schema.samples import EVENT
from tests.formats.protobuf.samples import EVERYTHING, INNER, OTHER, SCHEMA, SHARED, TEXT
from tests.fuzz.mutation import Chance, damaged, json_text, message, varint
from tests.fuzz.random_messages import build
from tests.servers.registry import RegistryServer

Mutate = Callable[[Chance, bytes, bytes], bytes]
POOL = 12
"""There are this many valid values of each kind."""
_UNKNOWN = (2_000_000_000, 2**31 - 1, 2**31, 2**32 - 1)
"""The registry has no schemas with these numbers."""
_PATHS = ((), (0,), (1,), (1, 0), (2,), (1, 1), (0, 0, 0), (2**31,), (-1,), tuple(range(40)))


class Record(NamedTuple):
    key: bytes | None
    value: bytes | None
    headers: tuple[tuple[str, bytes | None], ...] | None = None


def batch_of(records: Sequence[Record]) -> pa.RecordBatch:
    count = len(records)
    headers = [
        None if each.headers is None else [{"key": k, "value": v} for k, v in each.headers] for each in records
    ]
    columns = [
        [each.key for each in records],
        [each.value for each in records],
        headers,
        range(count),
        [0] * count,
        [3] * count,
        range(100, 100 + count),
    ]
    return pa.RecordBatch.from_arrays(
        [pa.array(column, field.type) for column, field in zip(columns, kafka.SCHEMA, strict=True)],
        schema=kafka.SCHEMA,
    )


class Source:
    """Produces records of one format."""

    def __init__(
        self, name: str, formats: dict[str, Any], registry: str, folder: Path, pool: Sequence[bytes], mutate: Mutate
    ) -> None:
        """`pool` has valid values as they are on the wire, where they begin with the number of their schema."""
        self.name = name
        self.pool = pool
        self.fine = pool
        """Good records have these values."""
        self._formats = formats
        self._registry = registry
        self._folder = folder
        self._mutate = mutate

    def config(self, folder: Path) -> Config:
        registry = RegistryConfig(url=self._registry)
        formats = FormatConfig(**self._formats)
        return Config(data_dir=folder / self.name, kafka=KafkaConfig(format=formats, registry=registry))

    @cached_property
    def decoder(self) -> Decoder:
        found = open_decoder(self.config(self._folder), self.name, kafka.SCHEMA)
        assert found is not None
        return found

    def _key(self, chance: Chance) -> bytes | None:
        return chance.choice(self.fine) if self._formats.get("key") == self.name else b'"key"'

    def good(self, chance: Chance) -> Record:
        return Record(self._key(chance), chance.choice(self.fine))

    def damaged(self, chance: Chance) -> Record:
        value, other = chance.choice(self.pool), chance.choice(self.pool)
        key, headers = self._key(chance), None
        match chance.randrange(16):
            case 0:
                key = None if key is None else damaged(chance, key, other)
            case 1:
                return Record(chance.choice((key, None)), chance.choice((None, b"", b"\0", b"\1", b"null", b"{}")))
            case 2:
                value = damaged(chance, value, other)
            case 3:
                value = _of_other_schema(chance, value)
            case 4:
                value, headers = _by_header(chance, value, other)
            case _:
                value = self._mutated(chance, value, other)
        return Record(key, value, headers)

    def _mutated(self, chance: Chance, value: bytes, other: bytes) -> bytes:
        """Mutates only what follows the number of the schema, where there is one."""
        head = 5 if value[:1] == b"\0" else 0
        return value[:head] + self._mutate(chance, value[head:], other[head:])


def _of_other_schema(chance: Chance, value: bytes) -> bytes:
    match chance.randrange(3):
        case 0:
            return b"\0" + struct.pack(">I", chance.choice((*_UNKNOWN, *range(1, 8)))) + value[5:]
        case 1:
            return b"\1" + uuid.UUID(int=chance.choice((0, 1, 2**128 - 1))).bytes + value[5:]
    return value[:5] + zigzags([chance.choice((0, 1, 2, 3, 40, 2**31))]) + value[5:]


def _by_header(chance: Chance, value: bytes, other: bytes) -> tuple[bytes, tuple[tuple[str, bytes | None], ...]]:
    """Names the schema in a header, as newer producers do, or nearly so."""
    header: bytes | None = chance.choice(
        (value[:5], value[:5], damaged(chance, value[:5], other), b"", None, b"\2abcd")
    )
    name = chance.choice((VALUE_SCHEMA_ID, VALUE_SCHEMA_ID, KEY_SCHEMA_ID, "", "\0", "é" * 9))
    return value[5:], ((name, header),) * chance.choice((1, 1, 2))


def sources(chance: Chance, server: RegistryServer, folder: Path) -> Iterator[Source]:
    def source(name: str, pool: Sequence[bytes], mutate: Mutate, **formats: Any) -> Source:
        return Source(name, {"value": name, **formats}, server.url, folder, pool, mutate)

    texts = [chance.choice(("", "text", "é" * 20, "\0")).encode() for _ in range(POOL)]
    objects = [json.dumps(_document(chance, number)).encode() for number in range(POOL)]
    yield source("raw", texts, damaged)
    yield source("string", texts, damaged, key="string")
    yield source("json", objects, json_text, key="json")
    yield source("avro", _avro(chance, server), _avro_like, key="raw")
    yield source("protobuf", _protobuf(chance, server), _protobuf_like, key="raw")
    yield source("json_schema", _json_schema(chance, server), json_text, key="raw")


def _document(chance: Chance, number: int) -> dict[str, Any]:
    return {
        "id": number,
        "price": number + 0.5,
        "name": chance.choice(("", "a", "é" * 30)),
        "at": "2026-11-18T00:00:00Z",
        "flag": bool(number % 2),
        "inner": {"a": [number, number + 1], "b": {"c": "d"}},
        "lines": [{"item": "x", "count": number}],
    }


# --- with a registry -------------------------------------------------------------------------------------------

_AVRO = {
    "type": "record",
    "name": "Everything",
    "fields": [
        {"name": "id", "type": "long"},
        {"name": "number", "type": "int"},
        {"name": "price", "type": "double"},
        {"name": "share", "type": "float"},
        {"name": "flag", "type": "boolean"},
        {"name": "name", "type": "string"},
        {"name": "data", "type": "bytes"},
        {"name": "code", "type": {"type": "fixed", "name": "Code", "size": 4}},
        {"name": "colour", "type": {"type": "enum", "name": "Colour", "symbols": ["RED", "GREEN"]}},
        {"name": "maybe", "type": ["null", "string"], "default": None},
        {"name": "choice", "type": ["null", "long", "string", {"type": "array", "items": "int"}]},
        {"name": "words", "type": {"type": "array", "items": "string"}},
        {"name": "counts", "type": {"type": "map", "values": "long"}},
        {"name": "nothings", "type": {"type": "array", "items": "null"}},
        {"name": "at", "type": {"type": "long", "logicalType": "timestamp-micros"}},
        {"name": "day", "type": {"type": "int", "logicalType": "date"}},
        {"name": "amount", "type": {"type": "bytes", "logicalType": "decimal", "precision": 20, "scale": 2}},
        {
            "name": "inner",
            "type": {
                "type": "record",
                "name": "Inner",
                "fields": [{"name": "path", "type": {"type": "array", "items": {"type": "map", "values": "bytes"}}}],
            },
        },
    ],
}


def _avro(chance: Chance, server: RegistryServer) -> list[bytes]:
    number = server.register(f"{uuid.uuid4().hex}-value", json.dumps(_AVRO))
    values = [
        {
            "id": chance.getrandbits(40),
            "number": each,
            "price": each / 2,
            "share": 0.5,
            "flag": True,
            "name": "é" * each,
            "data": chance.randbytes(each),
            "code": b"abcd",
            "colour": "GREEN",
            "maybe": chance.choice((None, "x")),
            "choice": chance.choice((None, 5, "text", [1, 2])),
            "words": ["a", "b"] * each,
            "counts": {"a": each, "b": -each},
            "nothings": [None] * each,
            "at": 1_700_000_000_000_000,
            "day": 20_000,
            "amount": (each * 100).to_bytes(3, "big"),
            "inner": {"path": [{"a": b"x"}] * each},
        }
        for each in range(POOL)
    ]
    plain = json.loads(json.dumps(_AVRO).replace('"logicalType"', '"meaning"'))
    return [_framed(number, each) for each in encode(plain, values)]


def _avro_like(chance: Chance, value: bytes, other: bytes) -> bytes:
    """Puts zigzag varints, which are lengths and counts in Avro, at any place."""
    if chance.random() < 0.5:
        return damaged(chance, value, other)
    at = chance.randrange(len(value) + 1)
    length = zigzags([chance.choice((1, 2, 100, 2**20, 2**31, 2**40, 2**62, 2**63 - 1, -1, -2, -(2**40)))])
    return value[:at] + length + value[at + chance.choice((0, 1)) :]


def _protobuf(chance: Chance, server: RegistryServer) -> list[bytes]:
    subject = uuid.uuid4().hex
    server.register(subject, SHARED, "PROTOBUF")
    shared = {"name": "shared/point.proto", "subject": subject, "version": 1}
    number = server.register(f"{subject}-value", TEXT, "PROTOBUF", [shared])
    files = compile_files(SCHEMA)
    found = []
    for path in (EVERYTHING, EVERYTHING, OTHER, INNER):
        kind = GetMessageClass(files.message(path))
        head = b"\0" if path == (0,) else zigzags([len(path), *path])
        found += [_framed(number, head + build(chance, kind).SerializeToString()) for _ in range(POOL)]
    return found


def _protobuf_like(chance: Chance, value: bytes, other: bytes) -> bytes:
    """Mutates the message mostly, and sometimes the indexes before it."""
    if chance.random() < 0.1:
        path = chance.choice(_PATHS)
        return zigzags([chance.choice((len(path), len(path) + 1, -1)), *path]) + value[1:]
    head = 1 if value[:1] == b"\0" else 1 + value[0] // 2
    return value[:head] + message(chance, value[head:], other[1:])


def _json_schema(chance: Chance, server: RegistryServer) -> list[bytes]:
    number = server.register(f"{uuid.uuid4().hex}-value", json.dumps(EVENT), "JSON")
    events = [
        {
            "id": each,
            "at": "2026-11-18T00:00:00Z",
            "day": chance.choice((None, "2026-11-18")),
            "price": each / 2,
            "labels": {"a": "b"},
            "lines": [{"item": "x"}] * each,
        }
        for each in range(POOL)
    ]
    return [_framed(number, json.dumps(each).encode()) for each in events]


def zigzags(numbers: Sequence[int]) -> bytes:
    """Encodes numbers as zigzag varints, also negative ones, which no producer writes."""
    return b"".join(varint(number << 1 ^ number >> 63) for number in numbers)


def _framed(number: int, body: bytes) -> bytes:
    return b"\0" + struct.pack(">I", number) + body
