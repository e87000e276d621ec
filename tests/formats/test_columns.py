"""Schemas that no table can follow are faults of their records, and never stop a topic."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from pathlib import Path

import pyarrow as pa
import pytest

from frazil.config.sections.kafka import RegistryConfig
from frazil.config.sections.retry import BreakerConfig
from frazil.formats.avro import AvroDecoder
from frazil.formats.protobuf import ProtobufDecoder
from frazil.formats.registry.client import Registry
from frazil.formats.values import Payloads
from tests.formats.json.reading import decode
from tests.servers.registry import RegistryServer

Kinds = dict[str, tuple[Callable[..., str], Callable[..., AvroDecoder | ProtobufDecoder], bytes]]


@pytest.fixture
def schemas(registry: RegistryServer, tmp_path: Path) -> Registry:
    return Registry(RegistryConfig(url=registry.url), tmp_path, BreakerConfig())


def avro(*names: str) -> str:
    fields = [{"name": name, "type": "long"} for name in names]
    return json.dumps({"type": "record", "name": "R", "fields": fields})


def protobuf(*names: str) -> str:
    fields = "".join(f"int64 {name} = {number};" for number, name in enumerate(names, 1))
    return f'syntax = "proto3"; message R {{ {fields} }}'


def payloads(number: int, body: bytes) -> Payloads:
    return Payloads(pa.array([b"\0" + number.to_bytes(4, "big") + body], pa.binary()))


@pytest.mark.parametrize(
    ("names", "reason"),
    [
        (("a", "A"), "'a' and 'A' differ in case only|conflicts with field 'A'"),
        (tuple(f"c{n}" for n in range(11)), r"they are 11, .* and 10 are the most \(`log.max_columns`\)"),
        (("x" * 256,), "a name of 256 characters"),
    ],
)
def test_schemas_of_a_registry(
    registry: RegistryServer, schemas: Registry, names: tuple[str, ...], reason: str
) -> None:
    label = f"columns-{len(names)}-{len(names[0])}"
    kinds: Kinds = {
        "AVRO": (avro, AvroDecoder, b"\2" * len(names)),
        "PROTOBUF": (protobuf, ProtobufDecoder, b"\0\x08\1"),
    }
    for kind, (text, decoder_of, body) in kinds.items():
        number = registry.register(f"{label}-{kind}", text(*names), kind)
        decoder = decoder_of(schemas, f"{label}-{kind}", 10)
        decoded = decoder.decode(payloads(number, body), None)
        assert decoded.columns == []
        assert re.search(reason, decoded.faults[0]), (kind, decoded.faults)
        assert list(decoder.kinds()) == list(decoder.survey(payloads(number, body), None)) == []


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ('{"a": 1, "A": 2}', "differs in case only"),
        ('{"\\u03c3": 1, "\\u03c2": 2}', "differs in case only"),
        ('{"a\\tb": 1}', "has a control character in its name"),
        ('{"": 1}', "has no name"),
        (json.dumps({"x" * 256: 1}), "a name of 256 characters"),
        (json.dumps({f"c{n}": n for n in range(11)}), "more than 10 columns"),
    ],
)
def test_json_without_a_schema(text: str, reason: str) -> None:
    decoded = decode(['{"fine": 1}', text], most_columns=10)
    assert [part.positions.tolist() for part in decoded.columns] == [[0]]
    assert reason in decoded.faults[1]
