"""Converts the columns of a topic's rows to Spark types, the same that Iceberg's data source uses."""

from __future__ import annotations

from collections.abc import Sequence

import pyarrow as pa
import pyarrow.types as types
import pyiceberg.types as iceberg
from pyiceberg.schema import Schema
from pyspark.sql import types as spark

from frazil.errors import ConfigError

_SIMPLE: dict[iceberg.IcebergType, spark.DataType] = {
    iceberg.BooleanType(): spark.BooleanType(),
    iceberg.IntegerType(): spark.IntegerType(),
    iceberg.LongType(): spark.LongType(),
    iceberg.FloatType(): spark.FloatType(),
    iceberg.DoubleType(): spark.DoubleType(),
    iceberg.DateType(): spark.DateType(),
    iceberg.TimestampType(): spark.TimestampNTZType(),
    iceberg.TimestamptzType(): spark.TimestampType(),
    iceberg.StringType(): spark.StringType(),
    iceberg.BinaryType(): spark.BinaryType(),
}


def spark_schema(schema: Schema) -> spark.StructType:
    """Converts a schema to Spark types. All columns are nullable, because Spark would skip checks for others."""
    return spark.StructType(
        [spark.StructField(field.name, _type(field.field_type, field.name)) for field in schema.fields]
    )


def check_columns(wanted: spark.StructType, there: Schema) -> Sequence[str]:
    """Returns the names of the wanted columns. Raises `ConfigError` if one is missing or has another type."""
    found = {field.name: field.dataType for field in spark_schema(there).fields}
    for field in wanted.fields:
        if field.name not in found:
            raise ConfigError(f"The topic has no column {field.name!r}; its columns: {', '.join(found)}.")
        kind, now = _nullable(field.dataType), found[field.name]
        if kind != now:
            raise ConfigError(
                f"Column {field.name!r} is {now.simpleString()}, not {kind.simpleString()}. If the topic has changed "
                f"since the data frame was made, load it again."
            )
    return wanted.fieldNames()


def spark_arrow(schema: pa.Schema) -> pa.Schema:
    """Returns the Arrow schema in which Spark accepts these rows. Spark does not know binary values of fixed size."""
    return pa.schema([pa.field(field.name, _arrow(field.type), field.nullable) for field in schema])


def _type(kind: iceberg.IcebergType, path: str) -> spark.DataType:
    if kind in _SIMPLE:
        return _SIMPLE[kind]
    match kind:
        case iceberg.DecimalType():
            return spark.DecimalType(kind.precision, kind.scale)
        case iceberg.FixedType():
            return spark.BinaryType()
        case iceberg.StructType():
            inner = [
                spark.StructField(each.name, _type(each.field_type, f"{path}.{each.name}")) for each in kind.fields
            ]
            return spark.StructType(inner)
        case iceberg.ListType():
            return spark.ArrayType(_type(kind.element_type, f"{path}.element"))
        case iceberg.MapType():
            return spark.MapType(_type(kind.key_type, f"{path}.key"), _type(kind.value_type, f"{path}.value"))
    raise ConfigError(f"Column {path!r} is {kind}, which Spark has no type for.")


def _nullable(kind: spark.DataType) -> spark.DataType:
    if isinstance(kind, spark.StructType):
        return spark.StructType([spark.StructField(each.name, _nullable(each.dataType)) for each in kind.fields])
    if isinstance(kind, spark.ArrayType):
        return spark.ArrayType(_nullable(kind.elementType))
    if isinstance(kind, spark.MapType):
        return spark.MapType(_nullable(kind.keyType), _nullable(kind.valueType))
    return kind


def _arrow(kind: pa.DataType) -> pa.DataType:
    if types.is_fixed_size_binary(kind):
        return pa.binary()
    if types.is_struct(kind):
        return pa.struct([pa.field(each.name, _arrow(each.type), each.nullable) for each in kind.fields])
    if types.is_map(kind):
        return pa.map_(_arrow(kind.key_type), _arrow(kind.item_type))
    if types.is_list(kind):
        return pa.list_(_arrow(kind.value_type))
    return kind
