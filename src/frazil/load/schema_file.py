"""Reads the schema that `--schema FILE` gives."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import yaml

from frazil.errors import ConfigError
from frazil.formats.type_names import parse_field
from frazil.load.columnar import open_columnar
from frazil.load.inputs import FORMATS, Input


def read_schema(path: Path) -> pa.Schema:
    """Reads the schema from a YAML or JSON mapping `column: type`, or from a Parquet or Arrow file."""
    kind = FORMATS.get(path.suffix.lower())
    if not path.is_file():
        raise ConfigError(f"--schema {path}: there is no such file.")
    if kind in ("parquet", "arrow"):
        with open_columnar(Input(path, kind)) as file:
            return file.schema.remove_metadata()
    try:
        columns = yaml.safe_load(path.read_text())
    except (yaml.YAMLError, UnicodeDecodeError) as error:
        raise ConfigError(f"--schema {path}: {' '.join(str(error).split())}") from error
    if not isinstance(columns, dict) or not columns:
        raise ConfigError(f"--schema {path}: write a mapping of columns to types, e.g. `id: int64`.")
    return pa.schema([_field(path, str(name), kind) for name, kind in columns.items()])


def _field(path: Path, name: str, kind: object) -> pa.Field:
    try:
        return parse_field(name, str(kind))
    except ValueError as error:
        raise ConfigError(
            f"--schema {path}: column {name!r}: {error}. Types look like int64, double, string, bool, timestamp[us], "
            f"timestamp[us, tz=UTC], date32, decimal128(10, 2), list<string>, struct<a: int64>."
        ) from error
