"""Has the table of all functions of templates, with the kinds of their parameters."""

from __future__ import annotations

import json
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from frazil.query.logql.templates import number_functions as numbers
from frazil.query.logql.templates import text_functions as texts
from frazil.query.logql.templates.formatting import sprintf
from frazil.query.logql.templates.times import ZERO, GoTime, LayoutFault, parse_time, zone_of
from frazil.query.logql.templates.values import (
    NO_VALUE,
    as_float,
    as_int,
    compare_basic,
    fail,
    printed,
    truth,
)

_SECOND = 1_000_000_000
_UNIT_BY_DIGITS = {5: 86400 * _SECOND, 10: _SECOND, 13: 1_000_000, 16: 1_000, 19: 1}


@dataclass(frozen=True)
class Signature:
    """Says how a function is called: with values of these kinds, and any number of the last one if it repeats."""

    function: Callable[..., Any]
    parameters: tuple[str, ...]
    repeats: bool = False


def _text(function: Callable[..., Any], *parameters: str) -> Signature:
    return Signature(function, parameters or ("string",))


def _any(function: Callable[..., Any], count: int = 1, *, repeats: bool = False) -> Signature:
    return Signature(function, ("any",) * count, repeats)


def _equal(first: object, *others: object) -> bool:
    if not others:
        fail("error calling eq: missing argument for comparison")
    for other in others:
        _checked("eq", first, other)
        if first == other:
            return True
    return False


def _not_equal(left: object, right: object) -> bool:
    _checked("ne", left, right)
    return left != right


def _checked(function: str, left: object, right: object) -> None:
    try:
        compare_basic(left, right)
        if isinstance(left, list | dict):
            raise ValueError("non-comparable type")
    except ValueError as wrong:
        fail(f"error calling {function}: {wrong}")


def _ordered(function: str, holds: Callable[[Any, Any], bool]) -> Signature:
    def compare(left: object, right: object) -> bool:
        _checked(function, left, right)
        if isinstance(left, bool) or not isinstance(left, str | int | float):
            fail(f"error calling {function}: invalid type for comparison")
        return holds(left, right)

    return _any(compare, 2)


def _index(value: Any, *keys: object) -> object:
    for key in keys:
        if isinstance(value, dict):
            texts_only = all(isinstance(each, str) for each in value.values())
            value = value.get(key, "" if texts_only else NO_VALUE)
        elif isinstance(value, list | str):
            if isinstance(key, bool) or not isinstance(key, int):
                fail("error calling index: cannot index slice/array with type " + type(key).__name__)
            if not 0 <= key < len(value):
                fail(f"error calling index: index out of range: {key}")
            value = value[key] if isinstance(value, list) else value.encode()[key]
        else:
            fail("error calling index: index of untyped nil")
    return value


def _slice(value: Any, *bounds: int) -> object:
    if not isinstance(value, str | list):
        fail("error calling slice: can't slice item of this type")
    data = value.encode() if isinstance(value, str) else value
    start, end = (*bounds, 0, len(data))[:2] if not bounds else (bounds[0], (*bounds, len(data))[1])
    if not 0 <= start <= end <= len(data):
        fail(f"error calling slice: index out of range: {end if end > len(data) else start}")
    piece = data[start:end]
    return piece.decode("utf-8", "replace") if isinstance(piece, bytes) else piece


def _length(value: Any) -> int:
    if isinstance(value, str):
        return len(value.encode())
    if isinstance(value, list | dict):
        return len(value)
    fail("error calling len: len of type " + type(value).__name__)
    return None


def _print(*values: object) -> str:
    text = ""
    for number, value in enumerate(values):
        spaced = number and not isinstance(value, str) and not isinstance(values[number - 1], str)
        text += (" " if spaced else "") + printed(value)
    return text


def _parse_json(text: str) -> object:
    try:
        return _without_surrogates(json.loads(text, parse_int=float))
    except (ValueError, RecursionError):
        return None


def _without_surrogates(value: Any) -> Any:
    """Replaces halves of surrogate pairs, which no text may have."""
    if isinstance(value, str):
        return value if value.isascii() else value.encode("utf-16", "surrogatepass").decode("utf-16", "replace")
    if isinstance(value, list):
        return [_without_surrogates(each) for each in value]
    if isinstance(value, dict):
        return {_without_surrogates(key): _without_surrogates(each) for key, each in value.items()}
    return value


def _to_date(layout: str, text: str) -> GoTime:
    return _to_date_in_zone(layout, "UTC", text)


def _to_date_in_zone(layout: str, zone: str, text: str) -> GoTime:
    try:
        return parse_time(layout, text, zone_of(zone))
    except LayoutFault:
        return ZERO


def _from_unix(text: str) -> GoTime:
    unit = _UNIT_BY_DIGITS.get(len(text))
    try:
        if unit is None:
            raise ValueError(text)
        return GoTime(int(text) * unit)
    except ValueError:
        fail(f"error calling unixToTime: unable to parse time '{text}'")


def _call(*_: object) -> object:
    fail("error calling call: non-function")


def _pattern_count(pattern: str, text: str) -> int:
    return texts.count(pattern, text)


FUNCTIONS: dict[str, Signature] = {
    "and": _any(lambda *values: next((each for each in values if not truth(each)), values[-1]), repeats=True),
    "or": _any(lambda *values: next((each for each in values if truth(each)), values[-1]), repeats=True),
    "not": _any(lambda value: not truth(value)),
    "len": _any(_length),
    "index": _any(_index, repeats=True),
    "slice": Signature(_slice, ("any", "int"), repeats=True),
    "print": Signature(_print, ("any",), repeats=True),
    "println": Signature(lambda *values: " ".join(map(printed, values)) + "\n", ("any",), repeats=True),
    "printf": Signature(lambda template, *values: sprintf(template, list(values)), ("string", "any"), repeats=True),
    "html": _any(lambda *values: texts.html(_print(*values)), repeats=True),
    "js": _any(lambda *values: texts.javascript(_print(*values)), repeats=True),
    "urlquery": _any(lambda *values: texts.url_encode(_print(*values)), repeats=True),
    "call": _any(_call, repeats=True),
    "eq": _any(_equal, repeats=True),
    "ne": _any(_not_equal, 2),
    "lt": _ordered("lt", lambda left, right: left < right),
    "le": _ordered("le", lambda left, right: left <= right),
    "gt": _ordered("gt", lambda left, right: left > right),
    "ge": _ordered("ge", lambda left, right: left >= right),
    "ToLower": _text(str.lower),
    "ToUpper": _text(str.upper),
    "lower": _text(str.lower),
    "upper": _text(str.upper),
    "title": _text(texts.title),
    "trim": _text(str.strip),
    "TrimSpace": _text(str.strip),
    "Replace": _text(texts.replace, "string", "string", "string", "int"),
    "Trim": _text(lambda text, characters: text.strip(characters), "string", "string"),
    "TrimLeft": _text(lambda text, characters: text.lstrip(characters), "string", "string"),
    "TrimRight": _text(lambda text, characters: text.rstrip(characters), "string", "string"),
    "TrimPrefix": _text(lambda text, affix: text.removeprefix(affix), "string", "string"),
    "TrimSuffix": _text(lambda text, affix: text.removesuffix(affix), "string", "string"),
    "trimAll": _text(lambda characters, text: text.strip(characters), "string", "string"),
    "trimPrefix": _text(lambda affix, text: text.removeprefix(affix), "string", "string"),
    "trimSuffix": _text(lambda affix, text: text.removesuffix(affix), "string", "string"),
    "replace": _text(lambda old, new, text: text.replace(old, new), "string", "string", "string"),
    "contains": _text(lambda part, text: part in text, "string", "string"),
    "hasPrefix": _text(lambda affix, text: text.startswith(affix), "string", "string"),
    "hasSuffix": _text(lambda affix, text: text.endswith(affix), "string", "string"),
    "trunc": _text(texts.trunc, "int", "string"),
    "substr": _text(texts.substr, "int", "int", "string"),
    "repeat": _text(texts.repeat, "int", "string"),
    "indent": _text(texts.indent, "int", "string"),
    "nindent": _text(lambda spaces, text: "\n" + texts.indent(spaces, text), "int", "string"),
    "alignLeft": _text(texts.align_left, "int", "string"),
    "alignRight": _text(texts.align_right, "int", "string"),
    "regexReplaceAll": _text(texts.regex_replace_all, "string", "string", "string"),
    "regexReplaceAllLiteral": _text(texts.regex_replace_all_literal, "string", "string", "string"),
    "count": _text(_pattern_count, "string", "string"),
    "urlencode": _text(texts.url_encode),
    "urldecode": _text(texts.url_decode),
    "b64enc": _text(texts.b64_encode),
    "b64dec": _text(texts.b64_decode),
    "bytes": _text(numbers.size),
    "duration": _text(numbers.seconds),
    "duration_seconds": _text(numbers.seconds),
    "int": _any(as_int),
    "float64": _any(as_float),
    "add": _any(numbers.add, repeats=True),
    "mul": _any(numbers.multiply, 2, repeats=True),
    "sub": _any(numbers.subtract, 2),
    "div": _any(numbers.divide, 2),
    "mod": _any(numbers.modulo, 2),
    "addf": _any(numbers.add_floats, repeats=True),
    "mulf": _any(numbers.multiply_floats, 2, repeats=True),
    "subf": _any(numbers.subtract_floats, 2, repeats=True),
    "divf": _any(numbers.divide_floats, 2, repeats=True),
    "max": _any(numbers.largest, 2, repeats=True),
    "min": _any(numbers.smallest, 2, repeats=True),
    "maxf": _any(numbers.largest_float, 2, repeats=True),
    "minf": _any(numbers.smallest_float, 2, repeats=True),
    "ceil": _any(numbers.ceil),
    "floor": _any(numbers.floor),
    "round": Signature(numbers.rounded, ("any", "int", "float64"), repeats=True),
    "fromJson": _text(_parse_json),
    "date": _text(lambda layout, moment: moment.format(layout), "string", "time"),
    "toDate": _text(_to_date, "string", "string"),
    "toDateInZone": _text(_to_date_in_zone, "string", "string", "string"),
    "now": Signature(lambda: GoTime(time.time_ns()), ()),
    "unixEpoch": _text(lambda moment: str(moment.nanoseconds // _SECOND), "time"),
    "unixEpochMillis": _text(lambda moment: str(moment.nanoseconds // 1_000_000), "time"),
    "unixEpochNanos": _text(lambda moment: str(moment.nanoseconds), "time"),
    "unixToTime": _text(_from_unix),
    "default": _any(lambda default, value: value if truth(value) else default, 2),
}
