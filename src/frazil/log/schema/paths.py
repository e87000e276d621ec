"""Paths of nested columns: the names from the top, joined by dots. Upper and lower case do not differ.

So a column `a.b` cannot be beside a column `a` that has a field `b`.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

import pyarrow as pa
import pyarrow.types as types


class NamedPath(NamedTuple):
    path: str
    name: str
    """The last part of the path."""


def named_paths(kind: pa.DataType, above: str = "") -> Iterator[NamedPath]:
    """Yield the paths of everything that has a name inside of a type: fields, list elements, map keys and values."""
    for name, part in _parts(kind):
        path = below(above, name)
        yield NamedPath(path, name)
        yield from named_paths(part, path)


def below(above: str, name: str) -> str:
    return f"{above}.{name}" if above else name


def folded(path: str) -> str:
    """Return the form of a name that it shares with all names that readers take for the same.

    Java, and so Spark, compares letter by letter in upper case and then in lower case, and in other places the whole
    name in lower case. So `ı` is `I`, `ς` is `σ`, and `İ` is both `i` and `i` with a dot above.
    """
    lower = path.lower()
    if lower.isascii():
        return lower
    return "".join(map(_folded_letter, lower)).replace("i\u0307", "i")


def _folded_letter(letter: str) -> str:
    """Fold one letter. Letters whose other case is more than one letter, as the `ß`, stay as they are."""
    upper = letter.upper()
    lower = upper.lower() if len(upper) == 1 else letter
    return lower if len(lower) == 1 else letter


def _parts(kind: pa.DataType) -> Iterator[tuple[str, pa.DataType]]:
    if isinstance(kind, pa.BaseExtensionType):
        yield from _parts(kind.storage_type)
    elif types.is_dictionary(kind) or types.is_run_end_encoded(kind):
        yield from _parts(kind.value_type)
    elif types.is_struct(kind):
        yield from ((field.name, field.type) for field in kind.fields)
    elif types.is_map(kind):
        yield from (("key", kind.key_type), ("value", kind.item_type))
    elif types.is_nested(kind) and hasattr(kind, "value_field"):
        yield "element", kind.value_type
