"""Detects the level of log records as Loki does: from labels, metadata and severity, else from the line
(`line_levels`).

Metadata named `detected_level` counts first, then a label of the stream, then metadata with the name of a level,
which includes OTLP's severity text, then the severity number. An unknown level stays as it was written.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import lru_cache
from typing import NamedTuple

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from frazil.formats.telemetry.any_values import MAP, ODD_MAP
from frazil.formats.telemetry.attributes import Attributes
from frazil.formats.telemetry.line_levels import LEVEL_FIELDS, LEVELS, UNKNOWN, level_named, levels_of_lines
from frazil.formats.telemetry.lists import lengths, offsets_of, offsets_view
from frazil.formats.telemetry.runs import Ints
from frazil.formats.telemetry.scopes import ResourceScope

DETECTED_LEVEL = "detected_level"

_SEVERITIES = ("trace", "debug", "info", "warn", "error", "fatal")
"""The names of severities; each has four numbers, the first of them from 1 on."""
_TEXT, _NUMBER = "severity_text", "severity_number"
_LABEL = 1
_RANKS = {DETECTED_LEVEL: 0, **{name: rank for rank, name in enumerate(LEVEL_FIELDS, _LABEL + 1)}}
_RANKS[_NUMBER] = len(_RANKS) + 1
"""The precedence of sources; the lowest rank counts."""
_LINE = _RANKS[_NUMBER] + 1
"""The rank of records that have only a line, or a severity number of their own."""
_NOT_OF_NAMES = re.compile(r"[^A-Za-z0-9]+")
_PERHAPS = re.compile(rb"(?i)level|severity|lvl")
_REPLACED = "\N{REPLACEMENT CHARACTER}"


class LevelEvidence(NamedTuple):
    """The parts of log records from which the level is detected."""

    lines: pa.Array
    metadata: Sequence[Attributes]
    """The attributes; where several have the same name, the first of these counts."""
    labels: pa.Array | None = None
    """The levels from the labels of the streams."""
    severity_texts: pa.Array | None = None
    severity_numbers: pa.Array | None = None


class _LevelTexts(NamedTuple):
    """Texts that name the levels of some rows, with their ranks."""

    rows: Ints
    ranks: Ints
    texts: pa.Array


def level_of_labels(labels: Mapping[str, str]) -> str | None:
    """Returns the level that the labels of a stream have."""
    name = next((name for name in LEVEL_FIELDS if labels.get(name)), None)
    return _normalised(labels[name]) if name else None


def may_name_level(scopes: Iterable[ResourceScope]) -> bool:
    """Returns whether attributes of resources or scopes may have the name of a level."""
    messages = {message for scope in scopes for message in (scope.resource, scope.scope) if message}
    return any(map(_PERHAPS.search, messages))


def detected_levels(found: LevelEvidence) -> pa.Array:
    rows = len(found.lines)
    sources = list(_told(found))
    if len(sources) == 1 and sources[0].texts is found.severity_texts:
        # This is the usual case: all records have a severity text, and nothing else has a level.
        encoded = found.severity_texts.dictionary_encode()
        return pa.array(map(_cleaned, encoded.dictionary.to_pylist()), pa.string()).take(encoded.indices)
    best, texts = _best(sources, rows)
    codes: npt.NDArray[np.int32] = np.full(rows, UNKNOWN, np.int32)
    names = list(LEVELS)
    named = best < _RANKS[_NUMBER]
    if named.any():
        codes[named], names = _named(texts if named.all() else texts.filter(pa.array(named)))
    numbered = best == _RANKS[_NUMBER]
    if numbered.any():
        codes[numbered] = [_of_number_text(text) for text in texts.filter(pa.array(numbered)).to_pylist()]
    left = best == _LINE
    if found.severity_numbers is not None and left.any():
        numbers = found.severity_numbers.to_numpy(zero_copy_only=False)
        numbered_rows = left & (numbers != 0)
        codes[numbered_rows] = _of_numbers(numbers[numbered_rows])
        left &= ~numbered_rows
    if left.any():
        lines = found.lines if left.all() else found.lines.filter(pa.array(left))
        codes[left] = levels_of_lines(lines)
    return pa.array(names, pa.string()).take(pa.array(codes))


# --- what tells it ---------------------------------------------------------------------------------------------


def _told(found: LevelEvidence) -> Iterator[_LevelTexts]:
    """Yields the sources. Where ranks are equal, the earlier source counts."""
    if found.labels is not None:
        yield _of_column(found.labels, _LABEL)
    for place, each in enumerate(found.metadata):
        source = _of_maps(each)
        if source is not None:
            yield source
        if not place and found.severity_texts is not None:
            yield _of_column(found.severity_texts, _RANKS[_TEXT])


def _of_column(texts: pa.Array, rank: int) -> _LevelTexts:
    """Returns the texts of a column with one text for each row, null or empty where there is none."""
    rows = np.flatnonzero(lengths(texts))
    return _LevelTexts(
        rows, np.full(len(rows), rank), texts if len(rows) == len(texts) else texts.take(pa.array(rows))
    )


def _of_maps(found: Attributes) -> _LevelTexts | None:
    ends = offsets_of(found.maps)
    first, last = int(ends[0]), int(ends[-1])
    keys = found.maps.keys.slice(first, last - first)
    coded = isinstance(keys, pa.DictionaryArray)
    at = np.flatnonzero(_perhaps(keys.dictionary)[keys.indices.to_numpy()] if coded else _perhaps(keys))
    if not len(at):
        return None
    encoded = keys.take(pa.array(at)).dictionary_encode()
    ranks = np.array([_rank(key) for key in encoded.dictionary.to_pylist()], np.int64)[encoded.indices.to_numpy()]
    texts = found.maps.items.slice(first, last - first).take(pa.array(at)).cast(pa.string())
    rows = np.searchsorted(ends - first, at, side="right") - 1
    chosen = (ranks < _LINE) & (lengths(texts) > 0) & ~_are_maps(found.types, rows, at + first - ends[rows])
    return _LevelTexts(rows[chosen], ranks[chosen], texts.filter(pa.array(chosen)))


def _perhaps(keys: pa.Array) -> npt.NDArray[np.bool_]:
    """Returns which keys may be the name of a level, by their first letter, which is quicker than looking up each."""
    data = keys.buffers()[2]
    if not data:
        return np.zeros(len(keys), bool)
    letters = np.frombuffer(data, np.uint8)
    # An empty key may stand at the end, where there is no letter.
    found: npt.NDArray[np.bool_] = _STARTS[letters.take(offsets_view(keys)[:-1], mode="clip")]
    return found


_STARTS = np.isin(np.arange(256), [ord(name[0]) for name in _RANKS])


def _are_maps(types: pa.Array, rows: Ints, places: Ints) -> npt.NDArray[np.bool_]:
    """Returns which of the values at these positions of the rows' maps are maps themselves. Loki flattens those under
    other names."""
    found = np.zeros(len(rows), bool)
    typed = np.asarray(types.is_valid())[rows]
    if typed.any():
        letters = np.frombuffer(types.buffers()[2], np.uint8)
        found[typed] = np.isin(letters[offsets_of(types)[rows[typed]] + places[typed]], [ord(MAP), ord(ODD_MAP)])
    return found


@lru_cache(maxsize=4096)
def _rank(key: str) -> int:
    """Returns the rank of a metadata key. Loki replaces special characters, so `log.level` does not match."""
    return _RANKS.get(_NOT_OF_NAMES.sub("_", key), _LINE)


def _best(sources: list[_LevelTexts], rows: int) -> tuple[Ints, pa.Array]:
    """Returns the lowest rank of each row, and the text that has it."""
    best: Ints = np.full(rows, _LINE)
    if len(sources) == 1 and len(sources[0].rows) == len(sources[0].texts) == rows and _each_once(sources[0].rows):
        return sources[0].ranks, sources[0].texts
    at: Ints = np.full(rows, -1)
    count = 0
    for source in sources:
        order = np.argsort(source.ranks, kind="stable")[::-1]
        order = order[source.ranks[order] < best[source.rows[order]]]
        # If a row has several texts here, the one with the lowest rank is assigned last; of equal ranks, the first
        # one.
        best[source.rows[order]] = source.ranks[order]
        at[source.rows[order]] = count + order
        count += len(source.texts)
    texts = pa.concat_arrays([pa.array([], pa.string()), *(source.texts for source in sources)])
    return best, texts.take(pa.array(at, mask=at < 0))


def _each_once(rows: Ints) -> bool:
    return bool((rows == np.arange(len(rows))).all())


# --- levels ----------------------------------------------------------------------------------------------------


def _named(texts: pa.Array) -> tuple[npt.NDArray[np.int32], list[str]]:
    """Returns the indexes of the levels with these names, and the list of names, to which unknown names are added."""
    encoded = texts.dictionary_encode()
    names = list(LEVELS)
    places = {name: place for place, name in enumerate(names)}
    codes = []
    for text in encoded.dictionary.to_pylist():
        name = _cleaned(text)
        if name not in places:
            places[name] = len(names)
            names.append(name)
        codes.append(places[name])
    return np.array(codes, np.int32)[encoded.indices.to_numpy()], names


def _cleaned(text: str) -> str:
    """Returns the level in metadata, from which Loki drops invalid characters."""
    return _normalised(text.replace(_REPLACED, ""))


def _normalised(text: str) -> str:
    return level_named(text) or text


def _of_numbers(numbers: npt.NDArray[np.int32]) -> npt.NDArray[np.int32]:
    """Returns the levels of severity numbers. As in Loki, numbers below 1 are `trace` and those above 24 unknown."""
    return _OF_NUMBER[np.clip(numbers, 1, len(_OF_NUMBER)) - 1]


_OF_NUMBER = np.array([*np.repeat([LEVELS.index(name) for name in _SEVERITIES], 4), UNKNOWN], np.int32)


def _of_number_text(text: str) -> int:
    """Returns the level of a number that came as metadata. As in Loki, a text that is not a number means `info`."""
    if not re.fullmatch(r"[+-]?[0-9]{1,18}", text, re.ASCII):
        return LEVELS.index("info")
    number = int(text)
    return int(_of_numbers(np.array([number]))[0]) if number else UNKNOWN
