"""JSON with a registry has the types of the schema that each record names."""

from __future__ import annotations

import json
import pickle
from datetime import UTC, date, datetime
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from frazil.config.sections.kafka import RegistryConfig
from frazil.config.sections.retry import BreakerConfig
from frazil.formats.json_schema import JsonSchemaDecoder
from frazil.formats.registry.client import Registry
from frazil.formats.values import DecodedValues, Payloads
from tests.formats.json_schema.samples import EVENT
from tests.servers.registry import RegistryServer

MORE = {**EVENT, "properties": {**EVENT["properties"], "colour": {"enum": ["red", "green"]}}}  # type: ignore[dict-item]
NUMBERS = {"$schema": "http://json-schema.org/draft-07/schema#", "type": "array", "items": {"type": "integer"}}

NULLABLE_TEXT = st.none() | st.text(st.characters(codec="utf-8"), max_size=4)
EVENTS = st.fixed_dictionaries(
    {},
    optional={
        "id": st.integers(-(2**63), 2**63 - 1),
        "at": st.datetimes(datetime(1, 1, 2), timezones=st.just(UTC)).map(lambda at: at.isoformat()),  # noqa: DTZ001
        "day": st.none() | st.dates().map(lambda day: day.isoformat()),
        "price": st.none() | st.floats(allow_nan=False, allow_infinity=False),
        "labels": st.none() | st.dictionaries(st.text(st.characters(codec="utf-8"), max_size=3), NULLABLE_TEXT),
        "lines": st.lists(st.fixed_dictionaries({"item": NULLABLE_TEXT}), max_size=2),
    },
)


@pytest.fixture
def schemas(registry: RegistryServer, tmp_path: Path) -> Registry:
    return Registry(RegistryConfig(url=registry.url), tmp_path, BreakerConfig())


def wired(number: int, value: Any) -> bytes:
    text = value if isinstance(value, str) else json.dumps(value)
    return b"\0" + number.to_bytes(4, "big") + text.encode()


def rows(decoded: DecodedValues) -> dict[int, Any]:
    return {
        place: row
        for part in decoded.columns
        for place, row in zip(part.positions.tolist(), part.column.to_pylist(), strict=True)
    }


def test_schemas_of_one_batch(registry: RegistryServer, schemas: Registry) -> None:
    first = registry.register("events-value", json.dumps(EVENT), "JSON")
    second = registry.register("events-value", json.dumps(MORE), "JSON")
    line = registry.register("events-line", json.dumps(NUMBERS), "JSON")
    avro = registry.register("events-avro", '"string"', "AVRO")
    values = [
        wired(first, {"id": 1, "at": "2024-01-01T00:00:00+01:00", "labels": {"a": "b"}}),
        wired(second, {"id": 2, "colour": "red", "extra": {"x": 1}}),
        None,
        wired(first, {"id": "x"}),
        wired(first, {"at": "yesterday"}),
        wired(first, {"labels": {"a": 1}}),
        wired(first, '{"id": 1'),
        wired(line, [1, 2, None]),
        wired(line, {"id": 1}),
        wired(avro, {}),
        wired(987_654_321, {}),
        json.dumps({"id": 1}).encode(),
        wired(first, {"day": None, "lines": [{"item": "x", "new": True}], "anything": 1.5}),
    ]
    decoder = pickle.loads(pickle.dumps(JsonSchemaDecoder(schemas, "events-value")))
    payloads = Payloads(pa.array(values, pa.binary()))
    decoded = decoder.decode(
        payloads, pa.schema([("extra", pa.struct([("x", pa.float64())])), ("value", pa.string())])
    )
    found = rows(decoded)
    assert sorted(found) == [0, 1, 7, 12]
    assert found[0]["at"] == datetime(2023, 12, 31, 23, tzinfo=UTC)
    assert found[0]["labels"] == [("a", "b")]
    assert found[1]["colour"] == "red"
    assert found[1]["extra"] == {"x": 1.0}
    assert found[7] == [1, 2, None]
    assert found[12]["lines"] == [{"item": "x", "new": True}]
    assert found[12]["anything"] == 1.5
    assert sorted(decoded.faults) == [3, 4, 5, 6, 8, 9, 10, 11]
    assert decoded.faults[3] == 'field "id" should be int64, but is "x"'
    assert decoded.faults[5] == 'field "labels.a" should be string, but is 1'
    assert "not JSON Schema" in decoded.faults[9]
    assert "not in the registry" in decoded.faults[10]
    assert "wire format" in decoded.faults[11]
    (kind,) = decoder.kinds()
    assert kind.field("colour").type == pa.string()
    assert kind.field("day").type == pa.date32()
    assert kind.get_field_index("anything") < 0
    assert list(decoder.survey(Payloads(pa.array(values[:2], pa.binary())), None)) == [
        part.column.type for part in decoder.decode(Payloads(pa.array(values[:2], pa.binary())), None).columns
    ]
    assert list(JsonSchemaDecoder(schemas, "no-such-subject").kinds()) == []


def test_what_was_written_is_read(registry: RegistryServer, schemas: Registry) -> None:
    number = registry.register("written-value", json.dumps(EVENT), "JSON")
    decoder = JsonSchemaDecoder(schemas, "written-value")

    @given(st.lists(EVENTS, max_size=4))
    def check(events: list[dict[str, Any]]) -> None:
        decoded = decoder.decode(Payloads(pa.array([wired(number, event) for event in events], pa.binary())), None)
        assert not decoded.faults
        for place, row in rows(decoded).items():
            written = events[place]
            at, day, labels = written.get("at"), written.get("day"), written.get("labels")
            assert row == {
                "id": written.get("id"),
                "at": None if at is None else datetime.fromisoformat(at),
                "day": None if day is None else date.fromisoformat(day),
                "price": written.get("price"),
                "labels": None if labels is None else list(labels.items()),
                "lines": written.get("lines"),
            }

    check()
