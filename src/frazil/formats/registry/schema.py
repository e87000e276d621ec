"""A schema as a registry has it, with all that it refers to."""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True)
class RegisteredSchema:
    kind: str
    """`AVRO`, `PROTOBUF` or `JSON`."""
    text: str
    references: tuple[Reference, ...] = ()

    def to_json(self) -> str:
        return json.dumps(_described(self), separators=(",", ":"))

    @staticmethod
    def from_json(text: str) -> RegisteredSchema:
        """`ValueError`, `KeyError` or `TypeError` if it is not what `to_json` makes."""
        return _read(json.loads(text))


@dataclass(frozen=True)
class Reference:
    name: str
    """What the schema calls it: the full name of an Avro type, the path of a Protobuf import, the URI of a `$ref`."""
    schema: RegisteredSchema


def _described(schema: RegisteredSchema) -> dict[str, Any]:
    references = [{"name": each.name, "schema": _described(each.schema)} for each in schema.references]
    return {"kind": schema.kind, "text": schema.text, "references": references}


def _read(described: dict[str, Any]) -> RegisteredSchema:
    references = (Reference(str(each["name"]), _read(each["schema"])) for each in described["references"])
    return RegisteredSchema(str(described["kind"]), str(described["text"]), tuple(references))
