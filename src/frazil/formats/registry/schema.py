"""Describes a schema as a registry has it, with everything that it refers to."""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True)
class RegisteredSchema:
    kind: str
    """The kind is `AVRO`, `PROTOBUF` or `JSON`."""
    text: str
    references: tuple[Reference, ...] = ()

    def to_json(self) -> str:
        return json.dumps(_to_data(self), separators=(",", ":"))

    @staticmethod
    def from_json(text: str) -> RegisteredSchema:
        """Read what `to_json` makes. Raises `ValueError`, `KeyError` or `TypeError` for anything else."""
        return _from_data(json.loads(text))


@dataclass(frozen=True)
class Reference:
    name: str
    """The schema uses this: the full name of an Avro type, the path of a Protobuf import, the URI of a `$ref`."""
    schema: RegisteredSchema


def _to_data(schema: RegisteredSchema) -> dict[str, Any]:
    references = [{"name": each.name, "schema": _to_data(each.schema)} for each in schema.references]
    return {"kind": schema.kind, "text": schema.text, "references": references}


def _from_data(described: dict[str, Any]) -> RegisteredSchema:
    references = (Reference(str(each["name"]), _from_data(each["schema"])) for each in described["references"])
    return RegisteredSchema(str(described["kind"]), str(described["text"]), tuple(references))
