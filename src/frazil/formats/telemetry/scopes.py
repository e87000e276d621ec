"""Makes the columns that records of all signals share: tenant, service, resource and scope.

A request has resources, these have scopes, and these have records. The columns are computed once for each resource
with a scope, cached (`row_cache`), and repeated for the records.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from google.protobuf.message import Message
from opentelemetry.proto.common.v1.common_pb2 import InstrumentationScope
from opentelemetry.proto.resource.v1.resource_pb2 import Resource

from frazil.formats.telemetry import attributes
from frazil.formats.telemetry.attributes import Attributes
from frazil.formats.telemetry.lists import flat, joined_bytes
from frazil.formats.telemetry.message_decoding import decode
from frazil.formats.telemetry.repeated_columns import repeat_rows, used_rows
from frazil.formats.telemetry.row_cache import RowCache
from frazil.formats.telemetry.rows import ROW_BYTES, check_total
from frazil.formats.telemetry.runs import Ints, runs_of

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

TENANT_AND_SERVICE = [pa.field(TENANT, pa.string(), nullable=False), pa.field(SERVICE_NAME, pa.string())]
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
"""The columns of resource and scope. They are null where a record came without a resource or scope."""

Columns = dict[str, pa.Array]


class ResourceScope(NamedTuple):
    """A resource with one of its scopes, which some records share: both as bytes, None where absent, and their schema
    URLs."""

    resource: bytes | None
    resource_url: str
    scope: bytes | None
    scope_url: str

    @property
    def width(self) -> int:
        """The approximate bytes that each record gets from it."""
        return len(self.resource or b"") + len(self.resource_url) + len(self.scope or b"") + len(self.scope_url)


class RequestRecords(NamedTuple):
    """The records of some requests, in order."""

    records: pa.StructArray
    requests: Ints
    """The number of the request of each record."""
    scopes: list[ResourceScope]
    """The distinct resources with scopes."""
    scope_of_record: Ints
    """This says which of `scopes` each record has."""
    widths: Ints
    """The approximate bytes that each record gets from its resource and scope."""


def records_of(requests: pa.RecordBatch, resources: str, scopes: str, records: str) -> RequestRecords:
    """Returns the records of requests. The names are those of the nested lists: `resource_logs`, `scope_logs`,
    `log_records`."""
    of_resource, request_at = flat(requests.column(resources))
    of_scope, resource_at = flat(of_resource.field(scopes))
    found, scope_at = flat(of_scope.field(records))
    above, own = _messages(of_resource, "resource"), _messages(of_scope, "scope")
    numbers: dict[tuple[bytes | None, str, bytes | None, str], int] = {}
    places = [
        numbers.setdefault(above[at] + each, len(numbers)) for at, each in zip(resource_at.tolist(), own, strict=True)
    ]
    distinct = list(map(ResourceScope._make, numbers))
    widths = np.array([each.width for each in distinct], np.int64)
    number = np.array(places, np.int64)[scope_at]
    check_total(int((widths + ROW_BYTES).dot(np.bincount(number, minlength=len(widths)))))
    return RequestRecords(found, request_at[resource_at][scope_at], distinct, number, widths[number])


def _messages(level: pa.StructArray, name: str) -> list[tuple[bytes | None, str]]:
    """Returns the serialized message of this name, and its schema URL, of each resource or scope."""
    return list(zip(joined_bytes(level.field(name)).to_pylist(), level.field("schema_url").to_pylist(), strict=True))


def common_columns(scopes: list[ResourceScope], scope_of_record: Ints, *, dictionaries: bool = False) -> Columns:
    """Returns the columns of service, resource and scope for records that have these scopes."""
    if dictionaries:
        used, places = used_rows(scope_of_record, len(scopes))
        rows = _ROW_CACHE.repeated([scopes[at] for at in used.tolist()], [1] * len(used))
        return repeat_rows(rows, places)
    runs = runs_of(scope_of_record)
    chosen = [scopes[at] for at in scope_of_record[runs.first].tolist()]
    found = _ROW_CACHE.repeated(chosen, runs.lengths.tolist())
    return dict(zip((field.name for field in found.type), found.flatten(), strict=True))


def _rows_of_scopes(distinct: Sequence[ResourceScope]) -> pa.StructArray:
    resources, resource_urls, scopes, scope_urls = (
        pa.array((each[place] for each in distinct), kind)
        for place, kind in enumerate((pa.binary(), pa.string(), pa.binary(), pa.string()))
    )
    columns = {
        **_of_each(_resources, resources),
        "resource_schema_url": resource_urls,
        **_of_each(_scopes, scopes),
        "scope_schema_url": scope_urls,
    }
    return pa.StructArray.from_arrays(columns.values(), columns)


def _of_each(convert: Callable[[pa.Array], Columns], messages: pa.Array) -> Columns:
    """Converts messages to columns; equal messages are decoded once."""
    encoded = messages.dictionary_encode(null_encoding="encode")
    if len(encoded.dictionary) == len(messages):
        return convert(messages)
    return {name: column.take(encoded.indices) for name, column in convert(encoded.dictionary).items()}


def resource_attributes(messages: pa.Array) -> Attributes:
    """Returns the attributes of serialized resources, which are null where there is none."""
    return attributes.of_lists(_decoded(Resource, messages)[0].column("attributes"))


def _resources(messages: pa.Array) -> Columns:
    resource, absent = _decoded(Resource, messages)
    found = attributes.of_lists(resource.column("attributes"))
    return {
        SERVICE_NAME: _service_names(found),
        **attribute_columns("resource_attributes", found, absent),
        "resource_dropped_attributes_count": _or_null(
            resource.column("dropped_attributes_count"), absent, pa.int64()
        ),
        "resource_entity_refs": _or_null(resource.column("entity_refs"), absent, pa.list_(_ENTITY)),
    }


def _scopes(messages: pa.Array) -> Columns:
    scope, absent = _decoded(InstrumentationScope, messages)
    return {
        "scope_name": _or_null(scope.column("name"), absent, pa.string()),
        "scope_version": _or_null(scope.column("version"), absent, pa.string()),
        **attribute_columns("scope_attributes", attributes.of_lists(scope.column("attributes")), absent),
        "scope_dropped_attributes_count": _or_null(_dropped(scope), absent, pa.int64()),
    }


def _dropped(decoded: pa.RecordBatch) -> pa.Array:
    return decoded.column("dropped_attributes_count")


def _decoded(kind: type[Message], messages: pa.Array) -> tuple[pa.RecordBatch, pa.Array]:
    """Returns the fields of messages, and which messages are absent."""
    return decode(kind, messages.fill_null(b"")), messages.is_null()


_ROW_CACHE = RowCache(_rows_of_scopes, lambda scope: scope.width)


def attribute_columns(name: str, found: Attributes, absent: pa.Array | None = None) -> Columns:
    """Returns the two columns of attributes; null where the owner is absent."""
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
    """Returns the names of services that are not empty."""
    names = pc.map_lookup(found.maps, _SERVICE, "last")
    return pc.if_else(pc.equal(names, ""), pa.scalar(None, pa.string()), names)
