"""Which decoder a topic has, by its settings."""

from __future__ import annotations

import pyarrow as pa

from frazil.config.model import Config, Format, FormatConfig
from frazil.formats.avro import AvroDecoder
from frazil.formats.decoding import Decoder
from frazil.formats.json import JsonDecoder
from frazil.formats.json_schema import JsonSchemaDecoder
from frazil.formats.kafka import is_kafka
from frazil.formats.protobuf import ProtobufDecoder
from frazil.formats.raw import RawDecoder
from frazil.formats.records import RecordDecoder
from frazil.formats.registry import Registry
from frazil.formats.text import TextDecoder
from frazil.formats.values import ValueDecoder


def open_decoder(config: Config, topic: str, schema: pa.Schema) -> Decoder | None:
    """The decoder of a topic whose log has this schema; None if its rows are the log's own columns."""
    if not is_kafka(schema):
        return None
    chosen = config.format_of(topic)
    return RecordDecoder(
        key=_key_decoder(config, topic, chosen.key),
        value=_value_decoder(config, chosen.value, _subject(topic, chosen), chosen.columns),
    )


def _key_decoder(config: Config, topic: str, kind: Format) -> ValueDecoder:
    # Keys in JSON are numbers and strings more often than objects.
    return JsonDecoder({}, records=False) if kind == "json" else _value_decoder(config, kind, f"{topic}-key", {})


def _value_decoder(config: Config, kind: Format, subject: str, columns: dict[str, str]) -> ValueDecoder:
    match kind:
        case "raw":
            return RawDecoder()
        case "string":
            return TextDecoder()
        case "json":
            return JsonDecoder(columns)
        case "avro":
            return AvroDecoder(Registry.of(config), subject)
        case "protobuf":
            return ProtobufDecoder(Registry.of(config), subject)
        case "json_schema":
            return JsonSchemaDecoder(Registry.of(config), subject)


def _subject(topic: str, chosen: FormatConfig) -> str:
    """The subject that the value's schemas are registered under."""
    match chosen.subject_strategy:
        case "topic_name":
            return f"{topic}-value"
        case "record_name":
            return chosen.record or ""
        case "topic_record_name":
            return f"{topic}-{chosen.record}"
