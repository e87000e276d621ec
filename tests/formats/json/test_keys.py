"""JSON keys may be numbers, strings and objects, in rows beside their values."""

from __future__ import annotations

import pyarrow as pa

from frazil.formats import kafka
from frazil.formats.json import JsonDecoder
from frazil.formats.records import RecordDecoder


def batch(keys: list[str | None], value: bytes | None = b'{"n": 1}') -> pa.RecordBatch:
    count = len(keys)
    columns = {
        kafka.KEY: [None if key is None else key.encode() for key in keys],
        kafka.VALUE: [value] * count,
        kafka.OFFSET: range(count),
        kafka.PARTITION: [0] * count,
    }
    rows = [dict(zip(columns, row, strict=True)) for row in zip(*columns.values(), strict=True)]
    return pa.RecordBatch.from_pylist(rows, schema=kafka.SCHEMA)


def test_keys_have_the_type_that_they_show_and_keep_it() -> None:
    decoder = RecordDecoder(key=JsonDecoder({}, records=False), value=JsonDecoder({}))
    decoded = decoder.decode(batch(["1", None, "2", "{}", "x"]))
    (piece, no_key) = sorted(decoded.batches, key=lambda piece: len(piece.rows), reverse=True)
    assert piece.rows[kafka.KEY].to_pylist() == [1, 2]
    assert no_key.rows[kafka.KEY].to_pylist() == [None]
    assert decoded.faults[3] == 'key: field "value" should be int64, but is {}'
    assert decoded.faults[4].startswith("key: not JSON")
    for text, known in (('{"value": 1}', piece.rows.schema), ("1", None)):
        assert decoder.decode(batch([text]), known).faults.keys() == ({0} if known else set())


def test_keys_that_are_objects() -> None:
    decoder = RecordDecoder(key=JsonDecoder({}, records=False), value=JsonDecoder({}))
    (piece,) = decoder.decode(batch(['{"value": 1}', '{"value": 2, "b": "x"}'])).batches
    assert piece.rows[kafka.KEY].to_pylist() == [{"value": 1, "b": None}, {"value": 2, "b": "x"}]
    again = decoder.decode(batch(['{"value": 3}', '{"value": "x"}', "4"]), piece.rows.schema)
    assert again.batches[0].rows[kafka.KEY].to_pylist() == [{"value": 3, "b": None}]
    assert sorted(again.faults) == [1, 2]
    assert decoder.survey(batch(['{"value": 3}']), piece.rows.schema).field(kafka.KEY) == piece.rows.schema.field(
        kafka.KEY
    )
