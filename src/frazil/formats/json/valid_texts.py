"""Separates byte strings that may be JSON from those that Arrow's parser must not see: it recurses and checks
little."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from frazil.formats.json.batch_reader import JsonTexts
from frazil.formats.json.learner import load
from frazil.formats.json.parsing import MAX_DEPTH, too_deep
from frazil.formats.json.scalars import Misfit
from frazil.formats.registry.wire import Bools, extents
from frazil.formats.utf8 import invalid_utf8
from frazil.formats.values import Positions

_BLANK = " \t\r\n"
_MARK = "\ufeff"


def valid_texts(values: pa.Array, *, objects: bool) -> tuple[JsonTexts, dict[int, str]]:
    """Returns the texts, and the reasons why other values are not texts; nulls are in neither. With `objects`, every
    text begins with `{` and ends with `}`."""
    faults = invalid_utf8(values)
    positions = _without(np.flatnonzero(values.is_valid().to_numpy(zero_copy_only=False)), faults)
    values = values if len(positions) == len(values) else values.take(pa.array(positions))
    deep = {int(positions[at]): f"the JSON is nested more than {MAX_DEPTH} levels deep" for at in _too_deep(values)}
    if deep:
        faults |= deep
        kept = np.flatnonzero(~np.isin(positions, list(deep)))
        positions, values = positions[kept], values.take(pa.array(kept))
    if _has_line_ends(values):
        # A tab may stand wherever a line end may, and JSON forbids both inside strings.
        values = pc.replace_substring(values, "\n", "\t")
    if objects and not _all_objects(values):
        values = _trimmed(values)
        odd = np.flatnonzero(~_are_objects(values))
        faults |= {int(positions[at]): _why_no_object(values[at].as_py()) for at in odd}
        kept = np.delete(np.arange(len(positions)), odd)
        positions, values = positions[kept], values.take(pa.array(kept))
    elif not objects:
        values = _trimmed(values)
    return JsonTexts(positions, values), faults


def _without(positions: Positions, faults: dict[int, str]) -> Positions:
    return positions[~np.isin(positions, list(faults))] if faults else positions


def _too_deep(values: pa.Array) -> list[int]:
    long = np.flatnonzero(pc.binary_length(values).to_numpy() > MAX_DEPTH)
    if not len(long):
        return []
    some = values.take(pa.array(long))
    opened = pc.add(pc.count_substring(some, "["), pc.count_substring(some, "{")).to_numpy()
    return [int(at) for at in long[opened > MAX_DEPTH] if too_deep(values[int(at)].as_py())]


def _has_line_ends(values: pa.Array) -> bool:
    if not len(values):
        return False
    data, starts, ends, _ = extents(values)
    return bool((data[starts[0] : ends[-1]] == ord("\n")).any())


def _all_objects(values: pa.Array) -> bool:
    return bool(_are_objects(values).all())


def _are_objects(values: pa.Array) -> Bools:
    """Returns whether each value begins with `{` and ends with `}`."""
    data, starts, ends, _ = extents(values)
    result = ends - starts >= 2
    result[result] = (data[starts[result]] == ord("{")) & (data[ends[result] - 1] == ord("}"))
    return result


def _trimmed(values: pa.Array) -> pa.Array:
    """Removes blanks around the texts, and byte order marks."""
    texts = values.cast(pa.string())
    if pc.any(pc.starts_with(texts, _MARK)).as_py():
        texts = pc.utf8_ltrim(texts, _MARK)
    return pc.ascii_trim(texts, _BLANK).cast(pa.binary())


def _why_no_object(text: bytes) -> str:
    if not text:
        return "it is empty, not a JSON object"
    try:
        value = load(text)
    except Misfit as error:
        return str(error)
    kind = {list: "an array", str: "a string", bool: "a boolean", type(None): "null"}.get(type(value), "a number")
    return f"the JSON is {kind}, not an object"
