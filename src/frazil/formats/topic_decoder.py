"""Opens the decoder that a topic has by its settings.

A format is imported only when a topic has it, because its libraries take longer to load than all the rest of a read.
"""

from __future__ import annotations

from typing import Literal

import pyarrow as pa

from frazil.config.model import Config
from frazil.config.sections.kafka import Format, FormatConfig
from frazil.formats.decoding import Decoder
from frazil.formats.kafka import is_kafka
from frazil.formats.raw import RawDecoder
from frazil.formats.records import RecordDecoder
from frazil.formats.utf8 import TextDecoder
from frazil.formats.values import ValueDecoder


def open_decoder(config: Config, topic: str, schema: pa.Schema) -> Decoder | None:
    """Returns the decoder of a topic whose log has this schema; None if its rows are the log's own columns."""
    if not is_kafka(schema):
        return None
    chosen = config.format_of(topic)
    return RecordDecoder(
        key=_key_decoder(config, topic, chosen.key),
        value=_value_decoder(config, chosen.value, _subject(topic, chosen), chosen.columns),
    )


def _key_decoder(config: Config, topic: str, kind: Format) -> ValueDecoder:
    if kind != "json":
        return _value_decoder(config, kind, f"{topic}-key", {})
    from frazil.formats.json import JsonDecoder

    # JSON keys are numbers and strings more often than objects.
    return JsonDecoder({}, records=False, most_columns=config.log.max_columns)


def _value_decoder(config: Config, kind: Format, subject: str, columns: dict[str, str]) -> ValueDecoder:
    match kind:
        case "raw":
            return RawDecoder()
        case "string":
            return TextDecoder()
        case "json":
            from frazil.formats.json import JsonDecoder

            return JsonDecoder(columns, most_columns=config.log.max_columns)
        case "avro" | "protobuf" | "json_schema":
            return _registered(config, kind, subject)


def _registered(config: Config, kind: Literal["avro", "protobuf", "json_schema"], subject: str) -> ValueDecoder:
    from frazil.formats.registry.client import Registry

    registry, most = Registry.of(config), config.log.max_columns
    match kind:
        case "avro":
            from frazil.formats.avro import AvroDecoder

            return AvroDecoder(registry, subject, most)
        case "protobuf":
            from frazil.formats.protobuf import ProtobufDecoder

            return ProtobufDecoder(registry, subject, most)
        case "json_schema":
            from frazil.formats.json_schema import JsonSchemaDecoder

            return JsonSchemaDecoder(registry, subject, most)


def _subject(topic: str, chosen: FormatConfig) -> str:
    """Returns the subject under which the schemas of the value are registered."""
    match chosen.subject_strategy:
        case "topic_name":
            return f"{topic}-value"
        case "record_name":
            return chosen.record or ""
        case "topic_record_name":
            return f"{topic}-{chosen.record}"
