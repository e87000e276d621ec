"""Checks the columns of a topic: its table must be able to have them, and every reader must tell them apart.

Other columns are refused when they come. The log would acknowledge their records, and no table could ever take them.
"""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Iterator
from typing import NamedTuple

import pyarrow as pa
import pyarrow.types as types

from frazil.errors import SchemaMismatch
from frazil.log.schema.paths import NamedPath, folded, named_paths

PARTITION = "_log_partition"
"""The column with a row's partition of the log. Spark refuses to read tables with a column `_partition`."""

OFFSET = "_offset"
"""The column with the offset of a row in that partition."""

NANOSECONDS = "_ns"
"""The suffix of the column with a timestamp's nanoseconds: timestamps of a table have microseconds only."""

RESERVED = frozenset(
    {"_file", "_pos", "_deleted", "_spec_id", "_partition", "_row_id", "_last_updated_sequence_number"}
)
"""The names of Iceberg's metadata columns. Spark refuses to read tables with such columns."""

LONGEST_NAME = 255
"""A name has at most this many characters. Longer ones are data, and catalogs such as Glue do not take them."""
MOST_LEVELS = 50
"""Columns may be nested this deep."""
MOST_DIGITS = 38
"""A decimal of Iceberg has at most this many digits."""

TOO_DEEP = f"columns lie inside of others more than {MOST_LEVELS} levels deep"

_CONTROL = re.compile("[\0-\x1f\x7f-\x9f]")
_SHOWN = 60
_LISTED = 5


class ColumnProblem(NamedTuple):
    column: str
    """The top-level column."""
    text: str
    """The problem, as part of a sentence."""


def check_columns(wanted: pa.Schema, most: int, present: pa.Schema | None = None) -> None:
    """Raise `SchemaMismatch` if a topic may not have these columns. Problems of `present` are ignored."""
    known = set(_refusals(present, most)) if present is not None else set()
    found = [text for text in dict.fromkeys(_refusals(wanted, most)) if text not in known]
    if not found:
        return
    more = f"; and {len(found) - _LISTED:,} more like these" if len(found) > _LISTED else ""
    raise SchemaMismatch(f"A topic cannot have these columns: {'; '.join(found[:_LISTED])}{more}.")


def column_problems(schema: pa.Schema) -> list[ColumnProblem]:
    """Return the columns for whose names Iceberg or Spark would refuse the whole table."""
    return [*_taken_names(schema), *_ambiguous_names(schema), *_companions(schema)]


def name_problem(path: str, name: str) -> str | None:
    """Return what is wrong with a name by itself, as part of a sentence about its column."""
    if not name:
        return f"column {shown(path)} has no name"
    if "\0" in name:
        return f"column {shown(path)} has a NUL in its name, which many readers take for its end"
    if _CONTROL.search(name):
        return f"column {shown(path)} has a control character in its name, which nobody can type"
    if len(name) > LONGEST_NAME:
        return f"column {shown(path)} has a name of {len(name):,} characters; {LONGEST_NAME} are the most"
    return None


def count_columns(kind: pa.DataType) -> int:
    """Count the fields of structs at all levels."""
    if types.is_map(kind):
        return count_columns(kind.key_type) + count_columns(kind.item_type)
    inside = sum(count_columns(kind.field(at).type) for at in range(kind.num_fields))
    return inside + kind.num_fields if types.is_struct(kind) else inside


def shown(path: str) -> str:
    return repr(path) if len(path) <= _SHOWN else f"{path[:_SHOWN]!r}…"


def _refusals(schema: pa.Schema, most: int) -> Iterator[str]:
    """Yield everything that is wrong, in words."""
    if is_too_deep(schema):
        yield TOO_DEEP
        return
    if (count := count_columns(pa.struct(schema))) > most:
        yield (
            f"they are {count:,}, with those inside of others, and {most:,} are the most (`log.max_columns`); names "
            f"that are data belong into a list or a map"
        )
        return
    for column in schema:
        yield from (text for path, name in _paths(column) if (text := name_problem(path, name)))
        yield from _unknown_types(column.type, column.name)
    yield from (problem.text for problem in column_problems(schema))
    yield from _alike_in_files(schema)


def is_too_deep(schema: pa.Schema) -> bool:
    return any(_is_deeper(column.type, MOST_LEVELS) for column in schema)


def _is_deeper(kind: pa.DataType, levels: int) -> bool:
    return levels < 0 or any(_is_deeper(kind.field(at).type, levels - 1) for at in range(kind.num_fields))


def _paths(column: pa.Field) -> Iterator[NamedPath]:
    yield NamedPath(column.name, column.name)
    yield from named_paths(column.type, column.name)


def _unknown_types(kind: pa.DataType, column: str) -> Iterator[str]:
    if types.is_decimal(kind) and not 0 <= kind.scale <= kind.precision <= MOST_DIGITS:
        yield f"column {shown(column)} has the type {kind}, which Iceberg does not have"
    for at in range(kind.num_fields):
        yield from _unknown_types(kind.field(at).type, column)


def _taken_names(schema: pa.Schema) -> Iterator[ColumnProblem]:
    added = {folded(name) for name in (PARTITION, OFFSET)}
    for name in schema.names:
        if folded(name) in added:
            yield ColumnProblem(name, f"column {name!r} has the name of a column that Frazil adds to every row")
        elif folded(name) in RESERVED:
            yield ColumnProblem(name, f"column {name!r} has a name that Iceberg keeps for itself")


def _ambiguous_names(schema: pa.Schema) -> Iterator[ColumnProblem]:
    alike: defaultdict[str, dict[str, str]] = defaultdict(dict)
    for column in schema:
        for path, name in _paths(column):
            among = alike[folded(path)]
            if not name or "\0" in name:
                yield ColumnProblem(column.name, str(name_problem(path, name)))
            elif path in among:
                text = f"there are two columns {shown(path)}: tables name what is inside of others with dots, too"
                yield ColumnProblem(column.name, text)
            among[path] = column.name
    for paths in alike.values():
        if len(paths) > 1:
            listed = " and ".join(map(shown, paths))
            *_, last = paths.values()
            yield ColumnProblem(last, f"columns {listed} differ in case only, which Spark cannot tell apart")


def _alike_in_files(schema: pa.Schema) -> Iterator[str]:
    """Yield columns that have one name in files of Spark, which could not compact such a table.

    Spark writes other signs than letters and digits as `_x` and a number.
    """
    written: dict[tuple[str, str], str] = {}
    for column in schema:
        for path, name in _paths(column):
            other = written.setdefault((path.removesuffix(name), _in_files(name)), path)
            if other != path:
                yield f"columns {shown(other)} and {shown(path)} have one name in the files that Spark writes"


def _in_files(name: str) -> str:
    written = "".join(sign if sign == "_" or sign.isalnum() else f"_x{ord(sign):X}" for sign in name)
    return f"_{written}" if written[:1].isdigit() else written


def _companions(schema: pa.Schema) -> Iterator[ColumnProblem]:
    present = {folded(name) for name in schema.names}
    for column in schema:
        rest = column.name + NANOSECONDS
        if types.is_timestamp(column.type) and column.type.unit == "ns" and folded(rest) in present:
            text = f"column {shown(rest)} has the name of the column for the nanoseconds of {shown(column.name)}"
            yield ColumnProblem(column.name, text)
