"""What records of all signals have in common: whose they are, and the resource and the scope that they came from.

A request has resources, these have scopes, and these have records. A level is worked out once for each resource and
each scope, and then repeated for their records.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from frazil.telemetry import attributes
from frazil.telemetry.attributes import Attributes

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


def records_of(requests: pa.RecordBatch, resources: str, scopes: str, records: str) -> Records:
    """The names are those of the lists: `resource_logs`, `scope_logs`, `log_records`."""
    resource_lists = requests.column(resources)
    of_resource = resource_lists.flatten()
    scope_lists = of_resource.field(scopes)
    of_scope = scope_lists.flatten()
    record_lists = of_scope.field(records)
    scope_at = pc.list_parent_indices(record_lists)
    resource_at = pc.list_parent_indices(scope_lists).take(scope_at)
    request_at = pc.list_parent_indices(resource_lists).take(resource_at)
    common = {
        **_taken(_resources(of_resource), resource_at),
        **_taken(_scopes(of_scope), scope_at),
    }
    return Records(record_lists.flatten(), request_at, common)


def _taken(columns: Columns, places: pa.Array) -> Columns:
    return {name: column.take(places) for name, column in columns.items()}


def _resources(level: pa.StructArray) -> Columns:
    resource = level.field("resource")
    absent = resource.is_null()
    found = attributes.of_lists(resource.field("attributes"))
    return {
        SERVICE_NAME: _service_names(found),
        **named("resource_attributes", found, absent),
        "resource_dropped_attributes_count": _or_null(resource.field("dropped_attributes_count"), absent, pa.int64()),
        "resource_entity_refs": _or_null(resource.field("entity_refs"), absent, pa.list_(_ENTITY)),
        "resource_schema_url": level.field("schema_url"),
    }


def _scopes(level: pa.StructArray) -> Columns:
    scope = level.field("scope")
    absent = scope.is_null()
    return {
        "scope_name": _or_null(scope.field("name"), absent, pa.string()),
        "scope_version": _or_null(scope.field("version"), absent, pa.string()),
        **named("scope_attributes", attributes.of_lists(scope.field("attributes")), absent),
        "scope_dropped_attributes_count": _or_null(scope.field("dropped_attributes_count"), absent, pa.int64()),
        "scope_schema_url": level.field("schema_url"),
    }


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
