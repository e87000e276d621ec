"""What records of all signals have in common: whose they are, and the resource and the scope that they came from.

A request has resources, these have scopes, and these have records. A level is worked out once for each resource and
each scope (`known`), and then repeated for their records.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from google.protobuf.message import Message
from opentelemetry.proto.common.v1.common_pb2 import InstrumentationScope
from opentelemetry.proto.resource.v1.resource_pb2 import Resource

from frazil.telemetry import attributes
from frazil.telemetry.attributes import Attributes
from frazil.telemetry.known import Known
from frazil.telemetry.messages import decode
from frazil.telemetry.rows import ROW_BYTES, check_total
from frazil.telemetry.runs import Ints

TENANT = "tenant_id"
SERVICE_NAME = "service_name"
_SERVICE = "service.name"

_ENTITY = pa.struct(
    [
        pa.field("schema_url", pa.string()),
        pa.field("type", pa.string()),
        pa.field("id_keys", pa.list_(pa.string())),
        pa.field("description_keys", pa.list_(pa.string())),
    ]
)

WHOSE = [pa.field(TENANT, pa.string(), nullable=False), pa.field(SERVICE_NAME, pa.string())]
ORIGIN = [
    *attributes.fields("resource_attributes"),
    pa.field("resource_dropped_attributes_count", pa.int64()),
    pa.field("resource_entity_refs", pa.list_(_ENTITY)),
    pa.field("resource_schema_url", pa.string()),
    pa.field("scope_name", pa.string()),
    pa.field("scope_version", pa.string()),
    *attributes.fields("scope_attributes"),
    pa.field("scope_dropped_attributes_count", pa.int64()),
    pa.field("scope_schema_url", pa.string()),
]
"""Null throughout where a record came without a resource, or without a scope."""

Columns = dict[str, pa.Array]


class Records(NamedTuple):
    """The records of some requests, in their order."""

    records: pa.StructArray
    requests: pa.Array
    """Which request each is of."""
    common: Columns
    """The columns of `WHOSE` but for the tenant, and of `ORIGIN`."""
    widths: Ints
    """About how many bytes each has of these."""


def records_of(requests: pa.RecordBatch, resources: str, scopes: str, records: str) -> Records:
    """The names are those of the lists: `resource_logs`, `scope_logs`, `log_records`."""
    of_resource, request_at = _flat(requests.column(resources))
    of_scope, resource_at = _flat(of_resource.field(scopes))
    found, scope_at = _flat(of_scope.field(records))
    widths = _widths(of_resource, "resource")[resource_at] + _widths(of_scope, "scope")
    check_total(int((widths + ROW_BYTES).dot(np.bincount(scope_at, minlength=len(widths)))))
    resource_at = resource_at[scope_at]
    common = {
        **_repeated(_RESOURCES, of_resource, "resource", resource_at),
        **_repeated(_SCOPES, of_scope, "scope", scope_at),
    }
    return Records(found, pa.array(request_at[resource_at]), common, widths[scope_at])


def _flat(lists: pa.ListArray) -> tuple[pa.StructArray, Ints]:
    """All that is in lists, and in which list each is."""
    lengths = np.diff(lists.offsets.to_numpy())
    return lists.flatten(), np.repeat(np.arange(len(lengths)), lengths)


def _widths(level: pa.StructArray, message: str) -> Ints:
    """How many bytes each of a level has for each of its records."""
    lengths = pc.binary_length(level.field(message)).fill_null(0).to_numpy()
    widths: Ints = lengths.astype(np.int64) + pc.binary_length(level.field("schema_url")).to_numpy()
    return widths


def _repeated(known: Known, level: pa.StructArray, message: str, places: Ints) -> Columns:
    """The columns of a level, for records that are of those at these places."""
    numbers: dict[bytes | None, int] = {}
    messages = level.field(message).to_pylist()
    codes = np.array([numbers.setdefault(each, len(numbers)) for each in messages], np.int64)
    columns = known.rows(list(numbers)).take(pa.array(codes[places]))
    return {
        **dict(zip((field.name for field in columns.type), columns.flatten(), strict=True)),
        f"{message}_schema_url": level.field("schema_url").take(pa.array(places)),
    }


def _resources(messages: pa.Array) -> pa.StructArray:
    resource, absent = _decoded(Resource, messages)
    found = attributes.of_lists(resource.column("attributes"))
    return _rows(
        {
            SERVICE_NAME: _service_names(found),
            **named("resource_attributes", found, absent),
            "resource_dropped_attributes_count": _or_null(
                resource.column("dropped_attributes_count"), absent, pa.int64()
            ),
            "resource_entity_refs": _or_null(resource.column("entity_refs"), absent, pa.list_(_ENTITY)),
        }
    )


def _scopes(messages: pa.Array) -> pa.StructArray:
    scope, absent = _decoded(InstrumentationScope, messages)
    return _rows(
        {
            "scope_name": _or_null(scope.column("name"), absent, pa.string()),
            "scope_version": _or_null(scope.column("version"), absent, pa.string()),
            **named("scope_attributes", attributes.of_lists(scope.column("attributes")), absent),
            "scope_dropped_attributes_count": _or_null(scope.column("dropped_attributes_count"), absent, pa.int64()),
        }
    )


def _decoded(kind: type[Message], messages: pa.Array) -> tuple[pa.RecordBatch, pa.Array]:
    """The fields of messages, and which of these are not there."""
    return decode(kind, messages.fill_null(b"")), messages.is_null()


def _rows(columns: Columns) -> pa.StructArray:
    return pa.StructArray.from_arrays(columns.values(), columns)


_RESOURCES, _SCOPES = Known(_resources), Known(_scopes)


def named(name: str, found: Attributes, absent: pa.Array | None = None) -> Columns:
    """The two columns of attributes; null where there is nobody to have any."""
    maps = found.maps
    if absent is not None and absent.true_count:
        places = np.arange(len(maps))
        maps = maps.take(pa.array(places, mask=np.asarray(absent)))
    return {name: maps, name + attributes.TYPES: found.types}


def _or_null(column: pa.Array, absent: pa.Array, kind: pa.DataType) -> pa.Array:
    column = column.cast(kind)
    if not absent.true_count:
        return column
    return column.take(pa.array(np.arange(len(column)), mask=np.asarray(absent)))


def _service_names(found: Attributes) -> pa.Array:
    """Those that are text and not empty."""
    names = pc.map_lookup(found.maps, _SERVICE, "last")
    return pc.if_else(pc.equal(names, ""), pa.scalar(None, pa.string()), names)
