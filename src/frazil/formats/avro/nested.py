"""Reads Avro's nested types: records, unions, arrays and maps."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pyarrow as pa

from frazil.formats.avro.array_items import Items, find_items, step_items
from frazil.formats.avro.nodes import Build, MalformedValue, Node, read_long
from frazil.formats.avro.reader import Ints, Reader, Slots
from frazil.formats.avro.scatter import scatter


class Record(Node):
    """Reads a record as a struct."""

    def __init__(self, path: str, fields: Sequence[tuple[str, Node]]) -> None:
        super().__init__(path)
        self.nodes = [node for _, node in fields]
        self.kind = pa.struct([pa.field(name, node.kind) for name, node in fields])
        self.least = sum(node.least for node in self.nodes)
        self.room = sum(node.room for node in self.nodes)
        sizes = [node.size for node in self.nodes]
        self.size = None if None in sizes else self.least

    def read(self, reader: Reader, slots: Slots) -> Build:
        count = len(slots)
        builds = [node.read(reader, slots) for node in self.nodes]
        return lambda: struct_of(self.kind, [build() for build in builds], count)

    def skip(self, reader: Reader, slots: Slots) -> None:
        for node in self.nodes:
            node.skip(reader, slots)

    def step(self, data: memoryview, pos: int) -> int:
        for node in self.nodes:
            pos = node.step(data, pos)
        return pos


class Optional(Node):
    """Reads a union of one type, or of null and one other type, as that type, which may be null."""

    least = 1

    def __init__(self, path: str, inner: Node, branches: int, null: int | None) -> None:
        """`null` is the number of the branch without a value, if there is one."""
        super().__init__(path)
        self.kind = inner.kind
        self.room = 1 + inner.room
        self._inner = inner
        self._branches = branches
        self._null = -1 if null is None else null

    def read(self, reader: Reader, slots: Slots) -> Build:
        count, places, present = len(slots), *self._present(reader, slots)
        build = self._inner.read(reader, present)
        if present is slots:
            return build
        slots.pos[places] = present.pos
        return lambda: scatter(build(), places, count)

    def skip(self, reader: Reader, slots: Slots) -> None:
        places, present = self._present(reader, slots)
        self._inner.skip(reader, present)
        if present is not slots:
            slots.pos[places] = present.pos

    def step(self, data: memoryview, pos: int) -> int:
        branch, pos = read_long(data, pos)
        return pos if branch == self._null else self._inner.step(data, pos)

    def _present(self, reader: Reader, slots: Slots) -> tuple[Ints, Slots]:
        branches = read_branches(reader, slots, self._branches, self.path)
        places = np.flatnonzero(branches != self._null)
        return places, slots if len(places) == len(slots) else slots.at(places)


class Union(Node):
    """Reads a union of several types as a struct with a field for each type; all fields are null but the one that is
    present."""

    def __init__(self, path: str, branches: Sequence[tuple[str, Node] | None]) -> None:
        """A branch that is None stands for null."""
        super().__init__(path)
        self._branches = [None if branch is None else branch[1] for branch in branches]
        self.kind = pa.struct([pa.field(branch[0], branch[1].kind) for branch in branches if branch is not None])
        self.least = 1 + min((0 if node is None else node.least for node in self._branches), default=0)
        self.room = 1 + max((0 if node is None else node.room for node in self._branches), default=0)

    def read(self, reader: Reader, slots: Slots) -> Build:
        count = len(slots)
        branches = read_branches(reader, slots, len(self._branches), self.path)
        parts: list[tuple[Build, Ints]] = []
        for number, node in enumerate(self._branches):
            if node is not None:
                places = np.flatnonzero(branches == number)
                chosen = slots.at(places)
                parts.append((node.read(reader, chosen), places))
                slots.pos[places] = chosen.pos

        def build() -> pa.Array:
            columns = [scatter(part(), places, count) for part, places in parts]
            nulls = [number for number, node in enumerate(self._branches) if node is None]
            return struct_of(self.kind, columns, count, np.isin(branches, nulls) if nulls else None)

        return build

    def skip(self, reader: Reader, slots: Slots) -> None:
        branches = read_branches(reader, slots, len(self._branches), self.path)
        for number, node in enumerate(self._branches):
            if node is not None:
                places = np.flatnonzero(branches == number)
                chosen = slots.at(places)
                node.skip(reader, chosen)
                slots.pos[places] = chosen.pos

    def step(self, data: memoryview, pos: int) -> int:
        branch, pos = read_long(data, pos)
        if not 0 <= branch < len(self._branches):
            raise MalformedValue
        node = self._branches[branch]
        return pos if node is None else node.step(data, pos)


class Array(Node):
    """Reads an array as a list."""

    least = 1

    def __init__(self, path: str, item: Node) -> None:
        super().__init__(path)
        self.kind = pa.list_(item.kind)
        self.room = 1 + item.room
        self._item = item

    def read(self, reader: Reader, slots: Slots) -> Build:
        items = find_items(reader, slots, self._item, self.path)
        build = self._item.read(reader, items.slots)
        return lambda: pa.ListArray.from_arrays(_borders(items), build(), type=self.kind)

    def skip(self, reader: Reader, slots: Slots) -> None:
        find_items(reader, slots, self._item, self.path)

    def step(self, data: memoryview, pos: int) -> int:
        return step_items(data, pos, self._item)


class Map(Node):
    """Reads a map, whose keys are text."""

    least = 1

    def __init__(self, path: str, key: Node, item: Node) -> None:
        super().__init__(path)
        self.kind = pa.map_(pa.string(), item.kind)
        self._entry = Record(path, [("key", key), ("value", item)])
        self.room = 1 + self._entry.room

    def read(self, reader: Reader, slots: Slots) -> Build:
        entries = find_items(reader, slots, self._entry, self.path)
        keys, items = (node.read(reader, entries.slots) for node in self._entry.nodes)
        return lambda: pa.MapArray.from_arrays(_borders(entries), keys(), items(), type=self.kind)

    def skip(self, reader: Reader, slots: Slots) -> None:
        find_items(reader, slots, self._entry, self.path)

    def step(self, data: memoryview, pos: int) -> int:
        return step_items(data, pos, self._entry)


def read_branches(reader: Reader, slots: Slots, count: int, path: str) -> Ints:
    branches = reader.longs(slots, path)
    if len(branches) and (branches.min() < 0 or branches.max() >= count):
        wrong = (branches < 0) | (branches >= count)
        reader.fail(slots, wrong, f"{path} is none of the {count} types of its union")
        branches[wrong] = 0
    return branches


def struct_of(
    kind: pa.StructType,
    columns: list[pa.Array],
    count: int,
    nulls: np.ndarray[tuple[int], np.dtype[np.bool_]] | None = None,
) -> pa.Array:
    """Returns a struct array. With no columns, Arrow could not know its length by itself."""
    if not columns:
        return pa.Array.from_buffers(kind, count, [None], children=[])
    mask = None if nulls is None or not nulls.any() else pa.array(nulls)
    return pa.StructArray.from_arrays(columns, fields=list(kind), mask=mask)


def _borders(items: Items) -> pa.Array:
    borders = np.zeros(len(items.counts) + 1, np.int32)
    np.cumsum(items.counts, out=borders[1:])
    return pa.array(borders)
