"""Records become rows with key, value and all that Kafka adds, whatever is mixed in one batch."""

from __future__ import annotations

import json
import pickle
import uuid
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from frazil.config.model import Config
from frazil.config.sections.kafka import FormatConfig, KafkaConfig, RegistryConfig
from frazil.errors import RegistryUnavailable
from frazil.formats import kafka
from frazil.formats.decoding import Decoded, Decoder
from frazil.formats.topic_decoder import open_decoder
from tests.examples import examples
from tests.formats.avro.cases import encode
from tests.servers.proxy import Proxy
from tests.servers.registry import RegistryServer

FIRST = {"type": "record", "name": "Order", "fields": [{"name": "id", "type": "int"}]}
SECOND = {
    **FIRST,
    "fields": [
        {"name": "id", "type": "long"},
        {"name": "_offset", "type": ["null", "string"], "default": None},
        {"name": "inner", "type": {"type": "record", "name": "I", "fields": [{"name": "_offset", "type": "int"}]}},
    ],
}
LOOP = {"type": "record", "name": "Loop", "fields": [{"name": "next", "type": ["null", "Loop"], "default": None}]}
NOT_THERE = 2_000_000_000


@pytest.fixture
def topic() -> str:
    return uuid.uuid4().hex


def opened(config: Config, topic: str) -> Decoder:
    decoder = open_decoder(config, topic, kafka.SCHEMA)
    assert decoder is not None
    return decoder


def config_of(url: str, tmp_path: Path, **formats: Any) -> Config:
    format_ = FormatConfig(**formats)
    return Config(data_dir=tmp_path, kafka=KafkaConfig(format=format_, registry=RegistryConfig(url=url)))


def framed(number: int, schema: Any, value: Any) -> bytes:
    return b"\0" + number.to_bytes(4, "big") + encode(schema, [value])[0]


def batch_of(
    values: Sequence[bytes | None],
    keys: Sequence[bytes | None] | None = None,
    headers: Sequence[list[tuple[str, bytes | None]] | None] | None = None,
) -> pa.RecordBatch:
    count = len(values)
    named = [
        None if some is None else [{"key": k, "value": v} for k, v in some] for some in headers or [None] * count
    ]
    columns = [keys or [None] * count, values, named, range(count), [0] * count, [3] * count, range(100, 100 + count)]
    return pa.RecordBatch.from_arrays(
        [pa.array(column, field.type) for column, field in zip(columns, kafka.SCHEMA, strict=True)],
        schema=kafka.SCHEMA,
    )


def rows_of(decoded: Decoded, batch: pa.RecordBatch) -> dict[int, dict[str, Any]]:
    """Returns the rows by position. Checks that each record is in one place only, and that its row has everything of
    Kafka's."""
    rows: dict[int, dict[str, Any]] = {}
    kept = [name for name in kafka.SCHEMA.names if name not in (kafka.KEY, kafka.VALUE)]
    whole = batch.select(kept).to_pylist()
    for piece in decoded.batches:
        piece.rows.validate(full=True)
        assert all(field.nullable for field in piece.rows.schema)
        assert piece.positions.to_pylist() == sorted(piece.positions.to_pylist())
        for place, row in zip(piece.positions.to_pylist(), piece.rows.to_pylist(), strict=True):
            assert place not in rows
            assert {name: row.pop(name) for name in kept} == whole[place]
            rows[place] = row
    assert set(rows) | set(decoded.faults) == set(range(len(batch)))
    assert not set(rows) & set(decoded.faults)
    return rows


class Mixed:
    """A topic with all kinds of keys and values, in Avro."""

    def __init__(self, registry: RegistryServer, topic: str, tmp_path: Path) -> None:
        first = registry.register(f"{topic}-value", json.dumps(FIRST))
        second = registry.register(f"{topic}-other", json.dumps(SECOND))
        loop = registry.register(f"{topic}-loop", json.dumps(LOOP))
        text = registry.register(f"{topic}-key", '"string"')
        self.decoder = opened(config_of(registry.url, tmp_path, value="avro", key="avro"), topic)
        filled = {"id": 2**40, "_offset": "mine", "inner": {"_offset": 5}}
        self.values: list[tuple[bytes | None, Any]] = [
            (framed(first, FIRST, {"id": 7}), {"id": 7}),
            (framed(second, SECOND, filled), {"id": 2**40, "__offset": "mine", "inner": {"_offset": 5}}),
            (None, {}),
            (b"", "value: too short"),
            (b"{}", "value: not in the wire format"),
            (framed(first, FIRST, {"id": 7}) + b"x", "value: it has more bytes"),
            (framed(NOT_THERE, FIRST, {"id": 7}), f"value: schema {NOT_THERE} is not in the registry"),
            (framed(loop, LOOP, {"next": None}), f"value: schema {loop}: next is a 'Loop' within a 'Loop'"),
        ]
        self.keys: list[tuple[bytes | None, Any]] = [
            (framed(text, "string", "k"), "k"),
            (framed(first, FIRST, {"id": 1}), {"id": 1}),
            (None, None),
            (b"\0", "key: too short"),
        ]


@settings(max_examples=examples(50), suppress_health_check=list(HealthCheck))
@given(st.data())
def test_whatever_is_mixed(mixed: Mixed, data: st.DataObject) -> None:
    picked = data.draw(st.lists(st.tuples(st.sampled_from(mixed.keys), st.sampled_from(mixed.values)), max_size=12))
    whole = batch_of([value for _, (value, _) in picked], [key for (key, _), _ in picked])
    start = data.draw(st.integers(0, len(picked)))
    batch, picked = whole.slice(start), picked[start:]
    decoded = mixed.decoder.decode(batch)
    rows = rows_of(decoded, batch)
    for place, ((key_text, key), (value_text, value)) in enumerate(picked):
        if place in decoded.faults:
            reasons = [each for each in (key if key_text else None, value) if isinstance(each, str) and ":" in each]
            assert any(decoded.faults[place].startswith(reason) for reason in reasons)
        else:
            assert rows[place] == {kafka.KEY: key, kafka.TOMBSTONE: value_text is None, **value}
    survey = mixed.decoder.survey(batch)
    for piece in decoded.batches:
        assert set(piece.rows.schema.names) <= set(survey.names)


@pytest.fixture
def mixed(registry: RegistryServer, topic: str, tmp_path: Path) -> Mixed:
    return Mixed(registry, topic, tmp_path)


def test_a_survey_has_the_wider_of_two_types(mixed: Mixed) -> None:
    survey = mixed.decoder.survey(batch_of([value for value, _ in mixed.values]))
    assert survey.names == [
        kafka.KEY,
        *(name for name in kafka.SCHEMA.names if name not in (kafka.KEY, kafka.VALUE)),
        kafka.TOMBSTONE,
        "id",
        "__offset",
        "inner",
    ]
    assert survey.field("id").type == pa.int64()
    assert survey.field(kafka.KEY).type == pa.null()


def test_columns_are_those_of_the_newest_schema(registry: RegistryServer, topic: str, tmp_path: Path) -> None:
    decoder = opened(config_of(registry.url, tmp_path, value="avro"), topic)
    plain = [kafka.KEY, *kafka.SCHEMA.names[2:], kafka.TOMBSTONE]
    assert decoder.columns().names == plain
    registry.register(f"{topic}-value", json.dumps(SECOND))
    fresh = opened(config_of(registry.url, tmp_path / "other", value="avro"), topic)
    assert fresh.columns().names == [*plain, "id", "__offset", "inner"]
    assert fresh.columns().field(kafka.KEY).type == pa.binary()


@pytest.mark.parametrize(
    ("strategy", "subject"), [("record_name", "{record}"), ("topic_record_name", "{topic}-{record}")]
)
def test_subjects(registry: RegistryServer, topic: str, tmp_path: Path, strategy: str, subject: str) -> None:
    record = f"R{topic}"
    registry.register(subject.format(topic=topic, record=record), json.dumps({**FIRST, "name": record}))
    config = config_of(registry.url, tmp_path, value="avro", subject_strategy=strategy, record=record)
    assert "id" in opened(config, topic).columns().names


def test_values_that_are_no_records(registry: RegistryServer, topic: str, tmp_path: Path) -> None:
    number = registry.register(f"{topic}-value", '"long"')
    decoder = opened(config_of(registry.url, tmp_path, value="avro", key="string"), topic)
    batch = batch_of([framed(number, "long", 5), None], [b"a", b"\xff"])
    decoded = decoder.decode(batch)
    assert rows_of(decoded, batch) == {0: {kafka.KEY: "a", kafka.TOMBSTONE: False, "value": 5}}
    assert decoded.faults[1].startswith("key: not UTF-8")
    assert decoder.columns().field("value").type == pa.int64()


def test_raw_keeps_everything_as_it_is(tmp_path: Path, topic: str) -> None:
    decoder = opened(Config(data_dir=tmp_path), topic)
    batch = batch_of([b"v", None, b""], [None, b"k", b""]).slice(0, 3)
    (piece,) = decoder.decode(batch).batches
    assert piece.rows.column("value").equals(batch.column(kafka.VALUE))
    assert piece.rows.column(kafka.KEY).equals(batch.column(kafka.KEY))
    assert piece.rows.schema == decoder.columns() == decoder.survey(batch)
    assert kafka.TOMBSTONE not in piece.rows.schema.names


def test_schemas_named_in_headers(registry: RegistryServer, topic: str, tmp_path: Path) -> None:
    number = registry.register(f"{topic}-value", json.dumps(FIRST))
    decoder = opened(config_of(registry.url, tmp_path, value="avro", key="avro"), topic)
    said = b"\0" + number.to_bytes(4, "big")
    value = encode(FIRST, [{"id": 9}])[0]
    batch = batch_of(
        [b"skipped", said + value, value, value, value],
        [None, None, value, None, None],
        [
            None,
            [],
            [("other", b"x"), ("__value_schema_id", said), ("__key_schema_id", said)],
            [("__value_schema_id", b"?"), ("__value_schema_id", said)],
            [("__value_schema_id", None)],
        ],
    ).slice(1)
    decoded = decoder.decode(batch)
    rows = rows_of(decoded, batch)
    assert {place: row["id"] for place, row in rows.items()} == {0: 9, 1: 9, 2: 9}
    assert rows[1][kafka.KEY] == {"id": 9}
    assert list(decoded.faults) == [3]


def test_a_registry_that_is_down_is_nobodys_fault(
    registry: RegistryServer, registry_proxy: Proxy, topic: str, tmp_path: Path
) -> None:
    number = registry.register(f"{topic}-value", json.dumps(FIRST))
    decoder = opened(config_of(RegistryServer.url_at(registry_proxy.endpoint), tmp_path, value="avro"), topic)
    batch = batch_of([framed(number, FIRST, {"id": 1})])
    registry_proxy.on("GET").answer(503)
    for call in (decoder.decode, decoder.survey):
        with pytest.raises(RegistryUnavailable):
            call(batch)
    registry_proxy.clear()
    expected = rows_of(decoder.decode(batch), batch)
    registry_proxy.down()
    assert rows_of(pickle.loads(pickle.dumps(decoder)).decode(batch), batch) == expected


def test_topics_that_are_not_from_kafka(tmp_path: Path, topic: str) -> None:
    assert open_decoder(Config(data_dir=tmp_path), topic, pa.schema([("a", pa.int32())])) is None
