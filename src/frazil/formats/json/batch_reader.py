"""Reads many JSON texts into one array, infers their types on the way, and says which texts could not be read.

Arrow parses blocks of a few megabytes strictly, with the types known by then. Only a block that it refuses is read
more closely: in small samples to learn new fields, and text by text where that fails too. So one bad text costs
little, and many cost no more than reading each alone.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.types as types

from frazil.formats.column_names import VALUE
from frazil.formats.json.field_names import check_names
from frazil.formats.json.learner import TypeLearner, arrow_converter, load
from frazil.formats.json.logical_types import from_physical, physical_type
from frazil.formats.json.parsing import BadJson, parse
from frazil.formats.json.scalars import Misfit
from frazil.formats.json.type_inference import Conflict, has_maps, known_columns, nested_types, widen
from frazil.formats.values import Positions
from frazil.log.schema.columns import MOST_LEVELS, count_columns

BLOCK_BYTES = 4 << 20
SAMPLE_BYTES = 1 << 16
SAMPLE_TEXTS = 512
"""The number of texts whose fields are learnt at once. Each new field takes space in the rows of all of them."""

_LONG_NUMBER = re.compile(rb"\d{19}")


class JsonColumn(NamedTuple):
    positions: Positions
    column: pa.Array
    """The objects as structs; each has the field `value` if values are not objects."""
    faults: dict[int, str]


class JsonTexts(NamedTuple):
    """JSON texts that are UTF-8 and not nested too deeply. They are objects, or any values that are still to be
    wrapped in one."""

    positions: Positions
    values: pa.Array
    """The texts (`binary`), without nulls and without line ends."""

    def pick(self, kept: Positions) -> JsonTexts:
        """Returns the texts at these indexes."""
        return JsonTexts(self.positions[kept], self.values.take(pa.array(kept)))

    def after(self, count: int) -> JsonTexts:
        return JsonTexts(self.positions[count:], self.values.slice(count))

    def cut(self, size: int, count: int) -> Iterator[JsonTexts]:
        """Cuts the texts into consecutive groups of at most so many bytes and texts. A single text may be larger."""
        ends = np.cumsum(pc.binary_length(self.values).to_numpy())
        start = 0
        while start < len(ends):
            before = int(ends[start - 1]) if start else 0
            end = max(start + 1, min(int(np.searchsorted(ends, before + size, "right")), start + count))
            yield JsonTexts(self.positions[start:end], self.values.slice(start, end - start))
            start = end


class BatchReader:
    """Reads one batch of texts. `struct` is the type learnt so far, and `faults` are those found so far."""

    def __init__(self, fixed: pa.DataType, most_columns: int, *, objects: bool) -> None:
        """`fixed` is the struct of columns whose types are settled. Values that are not objects are its field
        `value`."""
        self.struct = fixed
        self.faults: dict[int, str] = {}
        self._fixed = fixed
        self._most_columns = most_columns
        self._objects = objects
        self._crowded = False

    def learn(self, texts: JsonTexts) -> None:
        """Learns the types without keeping the values."""
        for _ in self._blocks(texts):
            pass

    def read(self, texts: JsonTexts) -> JsonColumn:
        parsed = [(block, self.struct, array) for block, array in self._blocks(texts) if len(block.positions)]
        wanted = self.known
        arrays = [
            from_physical(array if kind.equals(self.struct) else self._read(block), wanted, spare=False)
            for block, kind, array in parsed
        ]
        positions = [block.positions for block, _, _ in parsed]
        column = pa.concat_arrays(arrays) if arrays else pa.array([], wanted)
        return JsonColumn(np.concatenate(positions) if positions else np.array([], np.int64), column, self.faults)

    @property
    def known(self) -> pa.DataType:
        """The learnt type without fields that were only null or empty."""
        return pa.struct(list(known_columns(pa.schema(list(self.struct.fields)))[0]))

    def _blocks(self, texts: JsonTexts) -> Iterator[tuple[JsonTexts, pa.Array]]:
        """Yields the texts without a fault, in order, as arrays of the types known by then."""
        for block in texts.cut(BLOCK_BYTES, len(texts.values)):
            yield from self._block_arrays(block)

    def _block_arrays(self, rest: JsonTexts) -> Iterator[tuple[JsonTexts, pa.Array]]:
        while len(rest.positions):
            try:
                yield rest, self._parse(rest)
                return
            except BadJson:
                before = self.struct
            for part in rest.cut(SAMPLE_BYTES, SAMPLE_TEXTS):
                yield (part, self._read(part)) if self._learn_at_once(part) else self._learn_each(part)
                rest = rest.after(len(part.positions))
                if not self.struct.equals(before):
                    # The rest of the block may bring nothing new, so it is tried at once again.
                    break

    def _read(self, texts: JsonTexts) -> pa.Array:
        """Reads texts that have all been learnt."""
        try:
            return self._parse(texts)
        except BadJson:
            return self._to_array([self._load(value) for value in texts.values.to_pylist()])

    def _parse(self, texts: JsonTexts) -> pa.Array:
        """Parses all texts with the types known by now, or raises `BadJson`."""
        if not self.struct.num_fields or has_maps(self.struct):
            raise BadJson("Arrow reads no maps, and does not count what has no fields")
        table = parse(self._joined(texts), pa.schema(list(self.struct.fields)), "error")
        if table.num_rows != len(texts.positions):
            raise BadJson("a text is not one value")
        return pa.StructArray.from_arrays([column.chunk(0) for column in table.columns], fields=list(table.schema))

    def _learn_at_once(self, texts: JsonTexts) -> bool:
        """Learns the types of all texts with one parse; returns False if that is not possible."""
        if len(texts.positions) == 1 or self._crowded or has_maps(self._fixed):
            return False
        text = self._joined(texts)
        try:
            table = parse(text, pa.schema(list(self._fixed.fields)), "infer")
            grown = widen(pa.schema(list(self.struct.fields)), table.schema)
        except (BadJson, Conflict, RecursionError):
            return False
        kind = pa.struct(list(grown))
        if table.num_rows != len(texts.positions) or not (self._objects or grown.names == [VALUE]):
            return False
        if kind.equals(self.struct):
            return True
        if count_columns(kind) > self._most_columns:
            self._crowded = True
            return False
        if not _well_formed(kind) or (
            _LONG_NUMBER.search(text) and any(types.is_float64(part) for part in nested_types(kind))
        ):
            return False
        self.struct = kind
        return True

    def _learn_each(self, texts: JsonTexts) -> tuple[JsonTexts, pa.Array]:
        """Learns text by text, and returns the texts without a fault as an array."""
        try:
            return self._learnt(texts, TypeLearner(self._fixed, self.struct, self._most_columns, trusting=True))
        except pa.ArrowInvalid:
            return self._learnt(texts, TypeLearner(self._fixed, self.struct, self._most_columns, trusting=False))

    def _learnt(self, texts: JsonTexts, learner: TypeLearner) -> tuple[JsonTexts, pa.Array]:
        """Raises `pa.ArrowInvalid`, without having learnt anything, if the learner trusted a value that is not
        valid."""
        values: list[object] = []
        kept: list[int] = []
        faults: dict[int, str] = {}
        for at, text in enumerate(texts.values.to_pylist()):
            try:
                value = self._load(text)
                learner.learn(value)
            except MemoryError:
                raise
            except Exception as error:  # noqa: BLE001 - whatever a text does to us, it alone is to blame
                reason = str(error) if isinstance(error, Misfit) else f"cannot be read: {error!r}"
                faults[int(texts.positions[at])] = reason
            else:
                values.append(value)
                kept.append(at)
        array = self._to_array(values, learner.kind)
        self.struct = learner.kind
        self.faults |= faults
        return texts.pick(np.array(kept, np.int64)) if faults else texts, array

    def _to_array(self, values: list[object], kind: pa.DataType | None = None) -> pa.Array:
        kind = self.struct if kind is None else kind
        take = arrow_converter(kind)
        return from_physical(pa.array(map(take, values), physical_type(kind), size=len(values)), kind, spare=False)

    def _load(self, text: bytes) -> object:
        value = load(text)
        return value if self._objects else {VALUE: value}

    def _joined(self, texts: JsonTexts) -> pa.Buffer:
        """Joins all texts, each on a line and as an object.

        No object can have begun in one text and ended in another: after each `}` comes a line end, which cannot be
        inside a string, and a `{`, with which no object goes on. So if there are as many objects as texts, each text
        is one object.
        """
        head, tail = (b"", b"") if self._objects else (f'{{"{VALUE}":'.encode(), b"}")
        lines = pc.binary_join_element_wise(head, texts.values, tail + b"\n", b"")
        data = lines.buffers()[2]
        return data if data is not None else pa.py_buffer(b"")


def _well_formed(kind: pa.DataType) -> bool:
    """Returns whether single texts could have added fields of these names at these levels."""
    if _too_deep(kind, 0):
        return False
    try:
        check_names(kind)
    except Misfit:
        return False
    return True


def _too_deep(kind: pa.DataType, level: int) -> bool:
    return level > MOST_LEVELS or any(_too_deep(kind.field(at).type, level + 1) for at in range(kind.num_fields))
