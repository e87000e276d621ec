"""Rows of one tenant as OTLP's data: records under the scope and the resource that they came from."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

from google.protobuf.message import Message
from opentelemetry.proto.trace.v1.trace_pb2 import TracesData

from frazil.formats.otlp import spans
from frazil.formats.telemetry.messaging import Row, resource_of, scope_of
from frazil.formats.telemetry.scopes import ORIGIN

_RESOURCE = [field.name for field in ORIGIN if field.name.startswith("resource_")]
_SCOPE = [field.name for field in ORIGIN if field.name.startswith("scope_")]


def spans_data(rows: Iterable[Row]) -> TracesData:
    data = TracesData()
    _fill(data.resource_spans, "scope_spans", "spans", rows, spans.to_message)
    return data


def _fill(
    resources: Any, scopes: str, records: str, rows: Iterable[Row], to_message: Callable[[Row], Message]
) -> None:
    """Each resource once, and in it each scope once, in the order in which they are first seen."""
    of_resource: dict[str, Any] = {}
    of_scope: dict[tuple[str, str], Any] = {}
    for row in rows:
        resource, scope = _identity(row, _RESOURCE), _identity(row, _SCOPE)
        if resource not in of_resource:
            of_resource[resource] = resources.add(resource=resource_of(row), schema_url=row["resource_schema_url"])
        if (resource, scope) not in of_scope:
            level = getattr(of_resource[resource], scopes)
            of_scope[resource, scope] = level.add(scope=scope_of(row), schema_url=row["scope_schema_url"])
        getattr(of_scope[resource, scope], records).append(to_message(row))


def _identity(row: Row, names: list[str]) -> str:
    """Equal for rows with the same values in these columns."""
    return repr([row[name] for name in names])
