"""Takes an Arrow expression apart into a tree.

Arrow can evaluate expressions but gives no access to their parts. It can pickle them, though, and the pickle is an
Arrow file: the metadata of its schema lists the nodes of the tree in order, and its one row has the literals and
options.
"""

from __future__ import annotations

import ctypes
import struct
from collections.abc import Iterator
from dataclasses import dataclass

import pyarrow as pa
import pyarrow.compute as pc


@dataclass(frozen=True)
class Field:
    path: tuple[str, ...]


@dataclass(frozen=True)
class Literal:
    value: pa.Scalar


@dataclass(frozen=True)
class Call:
    name: str
    arguments: tuple[Node, ...]
    options: pa.Scalar | None


Node = Field | Literal | Call


def tree_of(expression: pc.Expression) -> Node:
    """Raises `ValueError` when the pickle does not look as described above."""
    _, (pickled,) = expression.__reduce__()
    with pa.ipc.open_file(pickled) as file:
        values = file.get_batch(0)
        pairs = iter(_metadata(file.schema))
    node = _node(next(pairs), pairs, values)
    if next(pairs, None) is not None:
        raise ValueError(f"there is more than one tree in {expression}")
    return node


def columns_of(node: Node) -> set[str]:
    """Returns the top-level columns that the expression uses."""
    match node:
        case Field(path):
            return {path[0]}
        case Call(_, arguments, _):
            return set().union(*map(columns_of, arguments))
    return set()


def _node(pair: tuple[str, str], rest: Iterator[tuple[str, str]], values: pa.RecordBatch) -> Node:
    match pair:
        case ("field_ref", name):
            return Field((name,))
        case ("nested_field_ref", count):
            names = [next(rest) for _ in range(int(count))]
            if any(kind != "field_ref" for kind, _ in names):
                raise ValueError(f"not a path of names: {names}")
            return Field(tuple(name for _, name in names))
        case ("literal", index):
            return Literal(values.column(int(index))[0])
        case ("call", name):
            arguments: list[Node] = []
            options = None
            for kind, text in rest:
                if kind == "end":
                    return Call(name, tuple(arguments), options)
                if kind == "options":
                    options = values.column(int(text))[0]
                else:
                    arguments.append(_node((kind, text), rest, values))
    raise ValueError(f"an unknown node: {pair}")


class _CSchema(ctypes.Structure):
    """Has the first fields of `ArrowSchema` from Arrow's C data interface."""

    _fields_ = (("format", ctypes.c_char_p), ("name", ctypes.c_char_p), ("metadata", ctypes.c_void_p))


def _metadata(schema: pa.Schema) -> list[tuple[str, str]]:
    """Returns all pairs in order, including repeated keys, which PyArrow's own `dict` would merge."""
    capsule = schema.__arrow_c_schema__()
    pointer = ctypes.pythonapi.PyCapsule_GetPointer
    pointer.restype, pointer.argtypes = ctypes.c_void_p, (ctypes.py_object, ctypes.c_char_p)
    at = _CSchema.from_address(pointer(capsule, b"arrow_schema")).metadata
    if at is None:
        raise ValueError("there is no tree")

    def number() -> int:
        nonlocal at
        (value,) = struct.unpack("=i", ctypes.string_at(at, 4))
        at += 4
        return int(value)

    def text() -> str:
        nonlocal at
        length = number()
        value = ctypes.string_at(at, length)
        at += length
        return value.decode()

    return [(text(), text()) for _ in range(number())]
