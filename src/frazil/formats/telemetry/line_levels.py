"""Detects the level of a log record from its line, by the rules of Loki.

In a line that is a JSON object, a member such as `level` has it, and in a line of logfmt such a key. If neither has a
known level, the first word such as `error` or `warn` counts. Regular expressions search all lines at once; only
deeply nested objects are parsed one by one.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from typing import Any

import numpy as np
import numpy.typing as npt
import polars as pl
import pyarrow as pa

Codes = npt.NDArray[np.int8]
Bools = npt.NDArray[np.bool_]

LEVELS = ("unknown", "trace", "debug", "info", "warn", "error", "critical", "fatal")
UNKNOWN = 0
"""The index of `unknown` in `LEVELS`."""
_NAMES = {
    **dict.fromkeys(("trace", "trc"), "trace"),
    **dict.fromkeys(("debug", "dbg"), "debug"),
    **dict.fromkeys(("info", "inf", "information"), "info"),
    **dict.fromkeys(("warn", "wrn", "warning"), "warn"),
    **dict.fromkeys(("error", "err"), "error"),
    "critical": "critical",
    "fatal": "fatal",
}
"""The names of levels that labels, members and keys may have, in any case."""
LEVEL_FIELDS = (
    *("level", "LEVEL", "Level", "log.level", "severity", "SEVERITY", "Severity", "SeverityText"),
    *("lvl", "LVL", "Lvl", "severity_text", "Severity_Text", "SEVERITY_TEXT"),
)
"""The names of labels, metadata, members and keys that have a level. Where several do, the first of these counts."""

_LINE = "line"
_line, _at, _bytes = pl.col(_LINE), pl.col("at"), pl.col("bytes")


def level_named(text: str) -> str | None:
    """Returns the level of this name; None if it is unknown."""
    return _NAMES.get(text.lower())


def levels_of_lines(lines: pa.Array) -> Codes:
    """Returns the index in `LEVELS` of each line's level."""
    table = pl.DataFrame({_LINE: pl.Series(lines, dtype=pl.String).fill_null("")})
    words, objects, pairs = table.select(
        word=_line.str.extract(_WORD, 1),
        object=_line.str.contains(_WHOLE_OBJECT) if _have(lines, b"{") else pl.lit(False),
        pair=_line.str.contains(_PERHAPS_PAIR) & _line.str.contains("=", literal=True)
        if _have(lines, b"=")
        else pl.lit(False),
    )
    found = _codes(words, lambda word: word.replace(_DOTTED, "i"))
    for chosen, levels_of in ((objects, _levels_of_objects), (pairs & ~objects, _levels_of_pairs)):
        if chosen.any():
            codes = levels_of(table.filter(chosen))
            at = np.flatnonzero(_mask(chosen))
            # If the object or the pairs have no known level, that of the words stays.
            found[at[codes != UNKNOWN]] = codes[codes != UNKNOWN]
    return found


def _have(lines: pa.Array, sign: bytes) -> bool:
    """Returns whether the sign is anywhere in the memory of the lines, which is quicker than searching each line."""
    data = lines.buffers()[2]
    return data is not None and sign in data.to_pybytes()


def _codes(texts: pl.Series, name_of: Callable[[str], str] = str) -> Codes:
    """Returns the indexes of the levels that these texts name; each distinct text is looked up once."""
    encoded = texts.to_arrow().dictionary_encode(null_encoding="encode")
    names = [level_named(name_of(text)) if text else None for text in encoded.dictionary.to_pylist()]
    codes = np.array([LEVELS.index(name) if name else UNKNOWN for name in names], np.int8)
    found: Codes = codes[encoded.indices.to_numpy()]
    return found


def _mask(column: pl.Series) -> Bools:
    found: Bools = column.to_numpy()
    return found


class _Syntax:
    """Finds the value of a name in lines, with regular expressions."""

    def __init__(self, name: str, mark: str, before: str, value: str, shortest: str) -> None:
        """`mark` finds names, and perhaps other texts. `before` matches what may stand before a name, and `shortest`
        the same non-greedily."""
        self._mark = mark
        self._before = f"{before}$"
        self._value = f"^{name}{value}"
        self._whole = f"{shortest}{name}{value}"

    def values(self, table: pl.DataFrame) -> pl.Series:
        """Returns the first value in each line; null where there is none."""
        # Checking what stands before a name takes a tenth of the time of finding a value behind it.
        parts = table.with_columns(at=_line.str.find(self._mark), bytes=_line.cast(pl.Binary))
        head, tail = _bytes.bin.slice(0, _at).cast(pl.String), _bytes.bin.slice(_at).cast(pl.String)
        found, wrong = parts.select(
            found=tail.str.extract(self._value, 1), wrong=_at.is_not_null() & ~head.str.contains(self._before)
        )
        # The match may be inside a text, or inside another name.
        again = (wrong | (found.is_null() & parts["at"].is_not_null())).arg_true()
        if not len(again):
            return found
        return found.scatter(again, parts[_LINE].gather(again).str.extract(self._whole, 1))


# --- words -----------------------------------------------------------------------------------------------------

_DOTTED = "\u0130"
"""A capital I with a dot, which Loki lowercases to `i`."""
_SEARCHED = ("trace", "debug", "fatal", "critical", "error", "err", "warning", "warn", "info")
_WORD = (
    r'(?i)(?:^|[ \t\n\[({"=])('
    + "|".join(word.replace("i", f"[i{_DOTTED}]") for word in _SEARCHED)
    + r')(?:$|[ \t\n\[\](){}:,!"=])'
)


# --- JSON ------------------------------------------------------------------------------------------------------

_WHOLE_OBJECT = r"(?s)^\s*\{.*\}[\t\n\x0b\x0c\r ]*$"
_ESCAPED_LETTER = r"\u00"
"""A name may be written with escapes."""
_FIELDS = "|".join(map(re.escape, LEVEL_FIELDS))
_TEXT = r'"(?:[^"\\]|\\.)*"'
_SPACE = r"[ \t\r\n]*"
_DEEPEST = 3
"""The nesting depth that the regular expression can skip."""


def _nested(depth: int) -> str:
    within = rf'[^\[\]{{}}"]|{_TEXT}' + (f"|{_nested(depth - 1)}" if depth > 1 else "")
    return rf"[\[{{](?:{within})*[\]}}]"


_SCALAR = r'[-0-9][^\s,{}\[\]":]*|true|false|null'
_PASSED = rf"{_TEXT}{_SPACE}:{_SPACE}(?:{_TEXT}|{_SCALAR}|{_nested(_DEEPEST)}){_SPACE},"


def _members(repeat: str) -> str:
    """Returns the expression for the members of an object, and of an object inside it."""
    some = rf"(?:{_SPACE}{_PASSED}){repeat}{_SPACE}"
    return rf"(?s)^{_SPACE}\{{{some}(?:{_TEXT}{_SPACE}:{_SPACE}\{{{some})?"


_NAME = rf'"(?:{_FIELDS})"{_SPACE}:{_SPACE}"'
_OBJECT = _Syntax(_NAME, _NAME, _members("*"), r'((?:[^"\\]|\\.)*)"', _members("*?"))


def _levels_of_objects(table: pl.DataFrame) -> Codes:
    texts = _OBJECT.values(table)
    if texts.null_count():
        lines = table[_LINE].filter(texts.is_null())
        deep = lines.str.contains(_ESCAPED_LETTER, literal=True)
        deep |= lines.str.contains(_NAME) & (lines.str.count_matches(r"[\[{]") > _DEEPEST + 1)
        walked = [_walked(line) for line in lines.filter(deep).to_list()]
        if walked:
            texts = texts.scatter(texts.is_null().arg_true().filter(deep), pl.Series(walked, dtype=pl.String))
    return _codes(texts)


def _walked(line: str) -> str | None:
    """Returns the value of the first member with the name of a level."""
    try:
        return _first(_DECODER.decode(line), 2)
    except (ValueError, RecursionError):
        return None


def _first(members: Any, depth: int) -> str | None:
    """Searches an object, and objects inside it, to this depth."""
    for name, value in members:
        if isinstance(value, str) and name in LEVEL_FIELDS:
            return value
        if isinstance(value, _Members) and depth > 1:
            found = _first(value, depth - 1)
            if found is not None:
                return found
    return None


class _Members(list[tuple[str, Any]]):
    """The members of an object, in order."""


_DECODER = json.JSONDecoder(object_pairs_hook=_Members, parse_int=float, parse_float=float)


# --- logfmt ----------------------------------------------------------------------------------------------------

_BLANKS = "".join(map(chr, range(33)))
_BLANK = r"[\x00-\x20]"
_END = rf"(?:{_BLANK}|$)"
_KEY = r'[^="\x00-\x20\x{FFFD}]+'
_ESCAPE = r"""\\(?:["'\\/bfnrt]|u[0-9A-Fa-f]{4})"""
_QUOTED = rf'"(?:[^"\\]*|(?:[^"\\\x00-\x1f]|{_ESCAPE})*)"'
_VALUE = rf'(?:{_QUOTED}|[^="\x00-\x20]*{_END})'
_PAIR = rf'{_BLANK}*{_KEY}(?:={_QUOTED}|(?:=[^="\x00-\x20]*)?{_BLANK})'
_KEYS = ("level", "log.level", "severity", "SeverityText", "lvl", "severity_text")
"""The keys that have a level, in order of precedence. They may be in any case."""


# An `s` may match another character case-insensitively, so it is not compared.
_MARKS = {key: f"{re.escape(key.lower().removeprefix('s'))}(?:=|{_BLANK}|$)" for key in _KEYS}


def _pair_of(key: str) -> _Syntax:
    """Returns the syntax for a logfmt key. A key without a value counts, but has no level."""
    return _Syntax(
        f"(?i:{re.escape(key)})",
        f"(?i:{_MARKS[key]})",
        rf"(?s)^(?:{_PAIR})*{_BLANK}*",
        rf"(={_VALUE}|{_END})",
        rf"(?s)^(?:{_PAIR})*?{_BLANK}*",
    )


_PAIRS = {key: _pair_of(key) for key in _KEYS}
_PERHAPS_PAIR = f"(?i)(?:{'|'.join(_MARKS.values())})"


def _value(text: str) -> str:
    """Returns the value in the text after a key."""
    found = text.removeprefix("=")
    return found[1:-1] if found[:1] == '"' else found.rstrip(_BLANKS)


def _levels_of_pairs(table: pl.DataFrame) -> Codes:
    found: Codes = np.zeros(len(table), np.int8)
    left = np.arange(len(table))
    for key in _KEYS:
        texts = _PAIRS[key].values(table)
        has_key = _mask(texts.is_not_null())
        if has_key.any():
            found[left] = _codes(texts, _value)
            table, left = table.filter(~has_key), left[~has_key]
        if not len(left):
            break
    return found
