"""Tests Avro topics whose schemas change, with a real registry."""

from __future__ import annotations

import io
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import fastavro
import pyarrow as pa
import pytest

from frazil.config.model import Config
from frazil.errors import RegistryUnavailable, SchemaEvolution, TableNotFound, TableSchemaMismatch
from frazil.log.schema.columns import OFFSET, PARTITION
from frazil.pipeline.decisions.topic_decisions import TopicDecisions
from frazil.pipeline.move.context import PipelineContext
from frazil.scan.topic_rows import TopicRows
from tests.lake.kafka_records import put
from tests.lake.support import local_config
from tests.pipeline.support import expect_once, found_offsets, move_all, pipeline_context
from tests.servers.proxy import Proxy
from tests.servers.registry import RegistryServer


class Producer:
    """Writes records of one topic with schemas that it registers."""

    def __init__(self, registry: RegistryServer, config: Config, topic: str) -> None:
        self._registry = registry
        self._config = config
        self.topic = topic

    def values(self, fields: dict[str, Any], *rows: dict[str, Any]) -> list[bytes]:
        described = [{"name": name, "type": kind} for name, kind in fields.items()]
        schema = {"type": "record", "name": "Click", "fields": described}
        number = self._registry.register(f"{self.topic}-value", json.dumps(schema), "AVRO")
        return [self._encode(number, schema, row) for row in rows]

    def _encode(self, number: int, schema: dict[str, Any], row: dict[str, Any]) -> bytes:
        sink = io.BytesIO()
        fastavro.schemaless_writer(sink, schema, row)
        return b"\0" + number.to_bytes(4, "big") + sink.getvalue()

    def put(self, context: PipelineContext, *segments: list[bytes], partition: int = 0) -> None:
        put(context.store, self._config.data_dir, *segments, partition=partition, topic=self.topic)


@pytest.fixture
def config(tmp_path: Path, registry: RegistryServer, registry_proxy: Proxy) -> Config:
    settings = {"format": {"value": "avro"}, "registry": {"url": registry.url_at(registry_proxy.endpoint)}}
    return local_config(tmp_path, kafka=settings)


@pytest.fixture
def context(config: Config) -> Iterator[PipelineContext]:
    with pipeline_context(config) as context:
        yield context


@pytest.fixture
def producer(registry: RegistryServer, config: Config, namespace: str) -> Producer:
    return Producer(registry, config, namespace)


def table(context: PipelineContext, topic: str, suffix: str = "") -> pa.Table:
    found = context.lake.load(("frazil", f"{topic}{suffix}")).scan().to_arrow()
    return found.sort_by([(PARTITION, "ascending"), (OFFSET, "ascending")])


def read(context: PipelineContext, topic: str) -> pa.Table:
    parts = TopicRows(context.config, topic, lake=context.lake).plan().tasks
    return pa.Table.from_batches([batch for part in parts for batch in part.read()]).sort_by(OFFSET)


def test_versions_in_one_batch_and_additive_changes(context: PipelineContext, producer: Producer) -> None:
    one = producer.values({"id": "int"}, {"id": 1}, {"id": 2})
    two = producer.values(
        {"id": "long", "name": ["null", "string"]}, {"id": 3, "name": "c"}, {"id": 2**40, "name": None}
    )
    producer.put(context, [one[0], two[0], one[1], two[1]])
    move_all(context, producer.topic)
    found = table(context, producer.topic)
    assert found["id"].to_pylist() == [1, 3, 2, 2**40]
    assert found["name"].to_pylist() == [None, "c", None, None]
    more = producer.values(
        {"id": "long", "place": {"type": "record", "name": "P", "fields": [{"name": "x", "type": "double"}]}},
        {"id": 5, "place": {"x": 0.5}},
    )
    producer.put(context, [more[0], one[0]])
    assert read(context, producer.topic)["place"].to_pylist()[-2:] == [{"x": 0.5}, None]
    move_all(context, producer.topic)
    assert table(context, producer.topic)["place"].to_pylist()[-2:] == [{"x": 0.5}, None]
    expect_once(found_offsets(context.lake, ("frazil", producer.topic)), {0: 6})


def clash(context: PipelineContext, producer: Producer) -> None:
    """Changes the type of a field, so that records of both types wait to be moved."""
    old = producer.values({"id": "int", "n": "string"}, *({"id": n, "n": f"{n}"} for n in range(4)))
    producer.put(context, [old[0], old[1]])
    move_all(context, producer.topic)
    new = producer.values({"id": "int", "n": "int"}, {"id": 10, "n": 10}, {"id": 11, "n": 11})
    producer.put(context, [old[2], new[0], old[3], new[1]])


def test_a_type_that_clashes_stops_the_topic_until_a_person_accepts_it(
    context: PipelineContext, producer: Producer
) -> None:
    clash(context, producer)
    with pytest.raises(SchemaEvolution, match="column 'n' is string in the table, but int in the topic"):
        move_all(context, producer.topic)
    assert table(context, producer.topic).num_rows == 2
    with pytest.raises(TableSchemaMismatch, match="'n'"):
        read(context, producer.topic)
    about = TopicDecisions(context.config, context.lake, context.store, producer.topic)
    (problem,) = about.problems()
    assert isinstance(problem.error, SchemaEvolution)
    assert problem.decisions == ("accept-schema", "dead-letter")
    about.decide("accept-schema")
    assert about.problems() == []
    hot = read(context, producer.topic)
    move_all(context, producer.topic)
    found = table(context, producer.topic)
    # Records of the old type, from before or from old producers, go to the column that was put aside.
    assert found["n"].to_pylist() == [None, None, None, 10, None, 11]
    assert found["n__1"].to_pylist() == ["0", "1", "2", None, "3", None]
    assert found.select(sorted(found.column_names)).equals(
        hot.select(sorted(hot.column_names)).cast(found.select(sorted(found.column_names)).schema)
    )
    again = producer.values({"id": "int", "n": "boolean"}, {"id": 12, "n": True})
    producer.put(context, again)
    with pytest.raises(SchemaEvolution, match="column 'n' is int in the table, but boolean in the topic"):
        move_all(context, producer.topic)
    about.decide("accept-schema")
    producer.put(context, producer.values({"id": "int", "n": "string"}, {"id": 13, "n": "x"}))
    move_all(context, producer.topic)
    last = table(context, producer.topic).select(["n", "n__1", "n__2"]).to_pylist()[-3:]
    assert last == [
        {"n": None, "n__1": None, "n__2": 11},
        {"n": True, "n__1": None, "n__2": None},
        {"n": None, "n__1": "x", "n__2": None},
    ]
    expect_once(found_offsets(context.lake, ("frazil", producer.topic)), {0: 8})


def test_or_records_that_do_not_fit_are_dead_letters(context: PipelineContext, producer: Producer) -> None:
    clash(context, producer)
    worse = producer.values({"id": "int", "n": {"type": "array", "items": "int"}}, {"id": 20, "n": [1]})
    producer.put(context, worse)
    TopicDecisions(context.config, context.lake, context.store, producer.topic).decide("dead-letter")
    hot = read(context, producer.topic)
    move_all(context, producer.topic)
    # A number can be written as a string, but a list cannot.
    assert table(context, producer.topic)["n"].to_pylist() == ["0", "1", "2", "10", "3", "11"]
    assert hot["n"].to_pylist() == ["0", "1", "2", "10", "3", "11"]
    letters = table(context, producer.topic, "__dead_letter")
    assert letters["value"].to_pylist() == worse
    assert "'n'" in letters["error"][0].as_py()


def test_poison_is_a_dead_letter_and_an_unknown_schema_too(context: PipelineContext, producer: Producer) -> None:
    (good,) = producer.values({"id": "int"}, {"id": 1})
    poison = [b"", b"\1\2", good[:-1], b"\0\x7f\xff\xff\xff\x02", b"\0\0\0\0"]
    producer.put(context, [good, *poison, good])
    assert read(context, producer.topic)[OFFSET].to_pylist() == [0, 6]
    move_all(context, producer.topic)
    assert table(context, producer.topic)[OFFSET].to_pylist() == [0, 6]
    assert table(context, producer.topic, "__dead_letter")["value"].to_pylist() == poison


def test_a_registry_that_is_down_is_waited_for(
    context: PipelineContext, producer: Producer, registry_proxy: Proxy
) -> None:
    (value,) = producer.values({"id": "int"}, {"id": 1})
    producer.put(context, [value])
    registry_proxy.down()
    with pytest.raises(RegistryUnavailable) as failure:
        move_all(context, producer.topic)
    assert failure.value.retryable
    registry_proxy.up()
    move_all(context, producer.topic)
    (later,) = producer.values({"id": "int", "b": ["null", "int"]}, {"id": 2, "b": 3})
    producer.put(context, [later])
    registry_proxy.down()
    with pytest.raises(RegistryUnavailable):
        move_all(context, producer.topic)
    with pytest.raises(TableNotFound):
        table(context, producer.topic, "__dead_letter")
    registry_proxy.up()
    move_all(context, producer.topic)
    assert table(context, producer.topic)["b"].to_pylist() == [None, 3]
