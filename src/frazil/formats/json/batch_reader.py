"""Many JSON texts as one array, their types learnt on the way; and the texts that could not be read.

Arrow parses blocks of a few megabytes with the types known by then, strictly. Only a block that it refuses is looked
at more closely: in small parts to learn new fields, and text by text where that fails too. So a text to blame costs
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
"""Texts whose fields are learnt at once: each new one costs a place in the rows of all of them."""

_LONG_NUMBER = re.compile(rb"\d{19}")


class JsonColumn(NamedTuple):
    positions: Positions
    column: pa.Array
    """A struct of the objects, or the values themselves."""
    faults: dict[int, str]


class JsonTexts(NamedTuple):
    """JSON texts that are known to be UTF-8, not too deep, and either objects or not yet wrapped in one."""

    positions: Positions
    values: pa.Array
    """`binary`, without nulls and without line ends."""

    def pick(self, kept: Positions) -> JsonTexts:
        """Those at these positions of this."""
        return JsonTexts(self.positions[kept], self.values.take(pa.array(kept)))

    def after(self, count: int) -> JsonTexts:
        return JsonTexts(self.positions[count:], self.values.slice(count))

    def cut(self, size: int, count: int) -> Iterator[JsonTexts]:
        """In order, in pieces of so many bytes and texts at most, unless it is one text only."""
        ends = np.cumsum(pc.binary_length(self.values).to_numpy())
        start = 0
        while start < len(ends):
            before = int(ends[start - 1]) if start else 0
            end = max(start + 1, min(int(np.searchsorted(ends, before + size, "right")), start + count))
            yield JsonTexts(self.positions[start:end], self.values.slice(start, end - start))
            start = end


class BatchReader:
    """Reads a batch; `kind` grows with it, `faults` are those that have been found."""

    def __init__(self, fixed: pa.DataType, most_columns: int, *, objects: bool) -> None:
        """`fixed` is the struct of columns whose types are settled; values that are no objects are its `value`."""
        self.struct = fixed
        self.faults: dict[int, str] = {}
        self._fixed = fixed
        self._most_columns = most_columns
        self._objects = objects
        self._crowded = False

    def learn(self, texts: JsonTexts) -> None:
        """Only what types there are."""
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
        """`kind` without what has only been null or empty."""
        return pa.struct(list(known_columns(pa.schema(list(self.struct.fields)))[0]))

    def _blocks(self, texts: JsonTexts) -> Iterator[tuple[JsonTexts, pa.Array]]:
        """The texts without a fault, in order, with the types known by then."""
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
                    # Perhaps that was all that was new.
                    break

    def _read(self, texts: JsonTexts) -> pa.Array:
        """Of texts all of which have been learnt."""
        try:
            return self._parse(texts)
        except BadJson:
            return self._to_array([self._load(value) for value in texts.values.to_pylist()])

    def _parse(self, texts: JsonTexts) -> pa.Array:
        """All of them with the types known by now, or `BadJson`."""
        if not self.struct.num_fields or has_maps(self.struct):
            raise BadJson("Arrow reads no maps, and does not count what has no fields")
        table = parse(self._joined(texts), pa.schema(list(self.struct.fields)), "error")
        if table.num_rows != len(texts.positions):
            raise BadJson("a text is not one value")
        return pa.StructArray.from_arrays([column.chunk(0) for column in table.columns], fields=list(table.schema))

    def _learn_at_once(self, texts: JsonTexts) -> bool:
        """Whether all of them could be."""
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
        """Those without a fault."""
        try:
            return self._learnt(texts, TypeLearner(self._fixed, self.struct, self._most_columns, trusting=True))
        except pa.ArrowInvalid:
            return self._learnt(texts, TypeLearner(self._fixed, self.struct, self._most_columns, trusting=False))

    def _learnt(self, texts: JsonTexts, learner: TypeLearner) -> tuple[JsonTexts, pa.Array]:
        """`pa.ArrowInvalid`, and nothing has been learnt, if the learner trusted in what is not true."""
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
        """All texts, each in a line and in an object.

        No object can have begun in one and ended in another: after each `}` comes a line end, which is nowhere inside
        of a string, and a `{`, which no object goes on with. So if there are as many objects as texts, each is one.
        """
        head, tail = (b"", b"") if self._objects else (f'{{"{VALUE}":'.encode(), b"}")
        lines = pc.binary_join_element_wise(head, texts.values, tail + b"\n", b"")
        data = lines.buffers()[2]
        return data if data is not None else pa.py_buffer(b"")


def _well_formed(kind: pa.DataType) -> bool:
    """Whether the names and levels are such that single texts could have added them all."""
    if _too_deep(kind, 0):
        return False
    try:
        check_names(kind)
    except Misfit:
        return False
    return True


def _too_deep(kind: pa.DataType, level: int) -> bool:
    return level > MOST_LEVELS or any(_too_deep(kind.field(at).type, level + 1) for at in range(kind.num_fields))
