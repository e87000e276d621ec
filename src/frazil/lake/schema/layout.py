"""Turns the layout settings of a table into its partition spec, sort order and table properties."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from pyiceberg.partitioning import PARTITION_FIELD_ID_START, PartitionField, PartitionSpec
from pyiceberg.schema import Schema
from pyiceberg.table.sorting import NullOrder, SortDirection, SortField, SortOrder

from frazil.config.sections.lake import IcebergConfig, TableLayoutConfig
from frazil.errors import ConfigError
from frazil.lake.schema.layout_parser import Term, parse_partition_term, parse_sort_term
from frazil.log.schema.paths import folded

MIB = 1024 * 1024
OWN_PREFIX = "frazil."

_METADATA_VERSIONS_KEPT = 100
"""This is how many old metadata files a table keeps: enough to see recent changes, and few enough to load quickly."""


def partition_spec(layout: TableLayoutConfig, schema: Schema) -> PartitionSpec:
    fields: list[PartitionField] = []
    for number, text in enumerate(layout.partition_by):
        term = parse_partition_term(text, schema, "partition_by")
        name = _partition_name(term, schema)
        if any(field.name == name for field in fields):
            raise ConfigError(f"partition_by: {text!r} is there twice.")
        fields.append(PartitionField(term.field_id, PARTITION_FIELD_ID_START + number, term.transform, name))
    return PartitionSpec(*fields)


def sort_order(layout: TableLayoutConfig, schema: Schema) -> SortOrder:
    fields: list[SortField] = []
    for text in layout.sort_by:
        order = parse_sort_term(text, schema, "sort_by")
        direction = SortDirection.DESC if order.descending else SortDirection.ASC
        nulls = NullOrder.NULLS_FIRST if order.nulls_first else NullOrder.NULLS_LAST
        fields.append(SortField(order.term.field_id, order.term.transform, direction, nulls))
    return SortOrder(*fields, order_id=1) if fields else SortOrder(order_id=0)


def layout_properties(layout: TableLayoutConfig, defaults: IcebergConfig) -> dict[str, str]:
    """Returns the table properties that the settings ask for. `properties` of the settings override the others."""
    compression = layout.compression or defaults.compression
    file_size_mb = layout.target_file_size_mb or defaults.target_file_size_mb
    for name in layout.properties:
        if name.lower().startswith(OWN_PREFIX):
            raise ConfigError(f"properties.{name}: Frazil keeps its own account in properties of such names.")
    properties = {
        "write.format.default": "parquet",
        "write.parquet.compression-codec": _codec(compression),
        "write.target-file-size-bytes": str(file_size_mb * MIB),
        "write.metadata.delete-after-commit.enabled": "true",
        "write.metadata.previous-versions-max": str(_METADATA_VERSIONS_KEPT),
    }
    if layout.compression_level is not None:
        properties["write.parquet.compression-level"] = str(layout.compression_level)
    elif compression == "zstd":
        properties["write.parquet.compression-level"] = "3"
    return properties | layout.properties


def check_layout(layout: TableLayoutConfig, schema: Schema | None) -> None:
    """Raises `ConfigError` if a table of this schema cannot have the layout.

    Without a schema only syntax is checked.
    """
    if schema is not None:
        partition_spec(layout, schema)
        sort_order(layout, schema)
        return
    for text in layout.partition_by:
        parse_partition_term(text, None, "partition_by")
    for text in layout.sort_by:
        parse_sort_term(text, None, "sort_by")


@contextmanager
def errors_name_setting(key: str) -> Iterator[None]:
    """Prefixes errors of a layout with the key of its settings, such as `topics.orders.table`."""
    try:
        yield
    except ConfigError as error:
        raise ConfigError(f"{key}.{error}") from error


def layout_key(topic: str, derived: str | None = None) -> str:
    """Returns the settings key of the layout of a base table, or of the derived table with this name."""
    return f"topics.{topic}.table" if derived is None else f"topics.{topic}.derived.{derived}"


def _codec(name: str) -> str:
    return "uncompressed" if name == "none" else name


def _partition_name(term: Term, schema: Schema) -> str:
    """Names a partition field as Spark does, because people know those names, but never like another column."""
    column = term.column.replace(".", "_")
    suffixes = {"identity": "", "void": "_null", "truncate": "_trunc"}
    name = column + suffixes.get(term.function, f"_{term.function}")
    taken = {folded(field.name) for field in schema.fields if field.field_id != term.field_id}
    while folded(name) in taken:
        name += "_part"
    return name
