"""Measures decoding: batches of Avro, Protobuf and JSON to Arrow columns, against one record at a time in Python."""

from __future__ import annotations

import io
import json
import random
import time
from collections.abc import Callable, Iterator, Sequence
from typing import Any, NamedTuple

import fastavro
import pyarrow as pa

from bench.figures import AtLeast, Bench, Figure, figure
from bench.log import rng
from frazil.formats.avro.decoding import decode_records
from frazil.formats.avro.schema import compile_schema
from frazil.formats.json import JsonDecoder
from frazil.formats.protobuf import message_of
from frazil.formats.registry.schema import RegisteredSchema
from frazil.formats.registry.wire import extents
from frazil.formats.values import Payloads

Row = dict[str, Any]

KIND = pa.struct(
    [
        ("id", pa.int64()),
        ("customer", pa.string()),
        ("amount", pa.float64()),
        ("quantity", pa.int32()),
        ("express", pa.bool_()),
        ("note", pa.string()),
        ("address", pa.struct([("street", pa.string()), ("city", pa.string()), ("zip", pa.int32())])),
        ("tags", pa.list_(pa.string())),
    ]
)
"""Every format is decoded to this type."""

AVRO = {
    "type": "record",
    "name": "Order",
    "fields": [
        {"name": "id", "type": "long"},
        {"name": "customer", "type": "string"},
        {"name": "amount", "type": "double"},
        {"name": "quantity", "type": "int"},
        {"name": "express", "type": "boolean"},
        {"name": "note", "type": ["null", "string"]},
        {
            "name": "address",
            "type": {
                "type": "record",
                "name": "Address",
                "fields": [
                    {"name": "street", "type": "string"},
                    {"name": "city", "type": "string"},
                    {"name": "zip", "type": "int"},
                ],
            },
        },
        {"name": "tags", "type": {"type": "array", "items": "string"}},
    ],
}

PROTOBUF = RegisteredSchema(
    "PROTOBUF",
    """
    syntax = "proto3";
    message Order {
      int64 id = 1;
      string customer = 2;
      double amount = 3;
      int32 quantity = 4;
      bool express = 5;
      optional string note = 6;
      Address address = 7;
      repeated string tags = 8;
      message Address { string street = 1; string city = 2; int32 zip = 3; }
    }
    """,
)

CITIES = ("Bergen", "Kiruna", "Oulu", "Reykjavík", "Tromsø")
TAGS = ("gift", "fragile", "cold", "heavy", "first order")


class Case(NamedTuple):
    name: str
    payloads: pa.Array
    ours: Callable[[], pa.Array]
    one_by_one: Callable[[], pa.Array]
    library: str


def formats(bench: Bench) -> Iterator[Figure]:
    """Decodes rows as wide as orders are: numbers, texts, a struct, a list."""
    count = 20_000 if bench.quick else 50_000
    rows = [_row(number, source) for source in [rng()] for number in range(count)]
    for case in (_avro(rows), _protobuf(rows), _json(rows)):
        _check(case, rows)
        rounds = bench.speeds(
            f"decoding {case.name}",
            lambda: _speed(case.one_by_one),  # noqa: B023 - called at once
            lambda: _speed(case.ours),  # noqa: B023 - called at once
        )
        average = case.payloads.nbytes // count
        yield figure(f"decoding {case.name}, {average} bytes a record", "rows/s", rounds, case.library, AtLeast(1))


def _row(number: int, source: random.Random) -> Row:
    return {
        "id": number,
        "customer": f"customer-{source.randrange(100_000)}",
        "amount": source.randrange(100_000) / 100 + 0.001,
        "quantity": source.randrange(1, 10),
        "express": source.random() < 0.2,
        "note": "leave it at the door" if source.random() < 0.3 else None,
        "address": {
            "street": f"{source.randrange(1, 200)} Long Street",
            "city": source.choice(CITIES),
            "zip": source.randrange(10_000, 99_999),
        },
        "tags": source.sample(TAGS, source.randrange(3)),
    }


def _check(case: Case, rows: Sequence[Row]) -> None:
    """Check that both ways read what was written."""
    for decode in (case.ours, case.one_by_one):
        decoded = decode()
        assert [decoded.field(name).to_pylist() for name in KIND.names] == [
            [row[name] for row in rows] for name in KIND.names
        ], case.name


def _speed(decode: Callable[[], pa.Array]) -> float:
    started = time.perf_counter()
    rows = len(decode())
    return rows / (time.perf_counter() - started)


# --- each format -----------------------------------------------------------------------------------------------


def _avro(rows: Sequence[Row]) -> Case:
    parsed = fastavro.parse_schema(AVRO)
    written = []
    for row in rows:
        target = io.BytesIO()
        fastavro.schemaless_writer(target, parsed, row)
        written.append(target.getvalue())
    payloads = pa.array(written, pa.binary())
    node = compile_schema(RegisteredSchema("AVRO", json.dumps(AVRO)))

    def ours() -> pa.Array:
        found = extents(payloads)
        return decode_records(node, found.data, found.starts, found.ends).values

    def one_by_one() -> pa.Array:
        records = [fastavro.schemaless_reader(io.BytesIO(each), parsed) for each in written]
        return pa.RecordBatch.from_pylist(records, pa.schema(KIND)).to_struct_array()

    return Case("Avro", payloads, ours, one_by_one, "fastavro, from_pylist")


def _protobuf(rows: Sequence[Row]) -> Case:
    order = message_of(PROTOBUF, (0,))
    written = [order.cls(**{name: value for name, value in row.items() if value is not None}) for row in rows]
    texts = [message.SerializeToString() for message in written]
    payloads = pa.array(texts, pa.binary())

    def ours() -> pa.Array:
        column, _, _ = order.decode(payloads)
        return column

    def one_by_one() -> pa.Array:
        return pa.array([_as_row(order.cls.FromString(text)) for text in texts], KIND)

    return Case("Protobuf", payloads, ours, one_by_one, "google.protobuf, dicts")


def _as_row(order: Any) -> Row:
    address = order.address
    return {
        "id": order.id,
        "customer": order.customer,
        "amount": order.amount,
        "quantity": order.quantity,
        "express": order.express,
        "note": order.note if order.HasField("note") else None,
        "address": {"street": address.street, "city": address.city, "zip": address.zip},
        "tags": list(order.tags),
    }


def _json(rows: Sequence[Row]) -> Case:
    texts = [json.dumps(row, ensure_ascii=False, separators=(",", ":")).encode() for row in rows]
    payloads = pa.array(texts, pa.binary())
    decoder = JsonDecoder({})
    known = pa.schema(KIND)

    def ours() -> pa.Array:
        (part,) = decoder.decode(Payloads(payloads), known).columns
        return part.column

    def one_by_one() -> pa.Array:
        return pa.array([json.loads(text) for text in texts], KIND)

    return Case("JSON", payloads, ours, one_by_one, "json.loads, pa.array")
