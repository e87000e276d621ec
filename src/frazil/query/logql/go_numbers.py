"""Reads and writes numbers, durations and sizes as Go's libraries do, with their error texts."""

from __future__ import annotations

import math
import re

_DECIMAL = re.compile(r"[+-]?(?:\d(?:_?\d)*\.?(?:\d(?:_?\d)*)?|\.\d(?:_?\d)*)(?:[eE][+-]?\d(?:_?\d)*)?", re.ASCII)
_HEX = re.compile(r"[+-]?0[xX]_?[0-9a-fA-F_]*\.?[0-9a-fA-F_]*[pP][+-]?\d+", re.ASCII)
_WORD = re.compile(r"[+-]?(?:inf|infinity|nan)", re.ASCII | re.IGNORECASE)

_SECOND = 1_000_000_000
_GO_UNITS = {
    "ns": 1,
    "us": 1_000,
    "µs": 1_000,
    "μs": 1_000,
    "ms": 1_000_000,
    "s": _SECOND,
    "m": 60 * _SECOND,
    "h": 3600 * _SECOND,
}
_GO_PART = re.compile(r"(\d*)(?:(\.)(\d*))?([^\d.]*)", re.ASCII)
_PROMETHEUS_UNITS = {
    "y": 365 * 86400 * _SECOND,
    "w": 7 * 86400 * _SECOND,
    "d": 86400 * _SECOND,
    "h": 3600 * _SECOND,
    "m": 60 * _SECOND,
    "s": _SECOND,
    "ms": 1_000_000,
}
_PROMETHEUS_PART = re.compile(r"(\d+)([a-zA-Zµ.]*)", re.ASCII)

_SIZE_UNITS = {"": 1, "b": 1} | {
    f"{letter}{suffix}": base**power
    for power, letter in enumerate("kmgtpe", 1)
    for suffix, base in (("", 1000), ("b", 1000), ("i", 1024), ("ib", 1024))
}
_MOST_BYTES = 2**64
_MOST_NANOSECONDS = 2**63 - 1


def quoted(text: str) -> str:
    """Returns the text in double quotes, escaped as Go's `%q` does it."""
    if text.isprintable() and '"' not in text and "\\" not in text:
        return f'"{text}"'
    return '"' + "".join(_escaped(each) for each in text) + '"'


_ESCAPES = {
    "\a": r"\a",
    "\b": r"\b",
    "\f": r"\f",
    "\n": r"\n",
    "\r": r"\r",
    "\t": r"\t",
    "\v": r"\v",
    "\\": r"\\",
    '"': r"\"",
}


def _escaped(character: str) -> str:
    if character in _ESCAPES:
        return _ESCAPES[character]
    if character.isprintable():
        return character
    code = ord(character)
    if code < 0x80:
        return f"\\x{code:02x}"
    return f"\\u{code:04x}" if code < 0x10000 else f"\\U{code:08x}"


def parse_float(text: str) -> float:
    """Returns the number that Go's `ParseFloat` finds, else raises `ValueError` with its text."""
    if _DECIMAL.fullmatch(text):
        value = float(text.replace("_", ""))
    elif _HEX.fullmatch(text):
        value = _hexadecimal(text)
    elif _WORD.fullmatch(text):
        return float(text)
    else:
        raise ValueError(f"strconv.ParseFloat: parsing {quoted(text)}: invalid syntax")
    if math.isinf(value):
        raise ValueError(f"strconv.ParseFloat: parsing {quoted(text)}: value out of range")
    return value


def _hexadecimal(text: str) -> float:
    try:
        return float.fromhex(text.replace("_", ""))
    except OverflowError:
        return math.inf
    except ValueError:
        raise ValueError(f"strconv.ParseFloat: parsing {quoted(text)}: invalid syntax") from None


def format_float(value: float) -> str:
    """Returns the shortest decimal text that reads back as the number, without an exponent."""
    if math.isnan(value):
        return "NaN"
    if math.isinf(value):
        return "+Inf" if value > 0 else "-Inf"
    text = repr(value)
    if "e" not in text:
        return text.removesuffix(".0")
    mantissa, _, exponent = text.partition("e")
    sign, digits = ("-", mantissa[1:]) if mantissa.startswith("-") else ("", mantissa)
    whole, _, fraction = digits.partition(".")
    shift = int(exponent)
    if shift < 0:
        return f"{sign}0.{'0' * (-shift - 1)}{whole}{fraction}"
    return sign + whole + fraction.ljust(shift, "0")


def parse_go_duration(text: str) -> int:
    """Returns nanoseconds as Go's `ParseDuration` finds them, else raises `ValueError` with its text."""
    rest = text[1:] if text[:1] in ("+", "-") else text
    if rest == "0":
        return 0
    total, at = 0, 0
    if not rest:
        raise ValueError(f"time: invalid duration {quoted(text)}")
    while at < len(rest):
        part = _GO_PART.match(rest, at)
        if part is None or not (part[1] or part[3]):
            raise ValueError(f"time: invalid duration {quoted(text)}")
        if not part[4]:
            raise ValueError(f"time: missing unit in duration {quoted(text)}")
        if part[4] not in _GO_UNITS:
            raise ValueError(f"time: unknown unit {quoted(part[4])} in duration {quoted(text)}")
        unit = _GO_UNITS[part[4]]
        total += int(part[1] or 0) * unit
        if part[3]:
            total += int(part[3]) * unit // 10 ** len(part[3])
        at = part.end()
    if total > _MOST_NANOSECONDS:
        raise ValueError(f"time: invalid duration {quoted(text)}")
    return -total if text[0] == "-" else total


def parse_prometheus_duration(text: str) -> int:
    """Returns nanoseconds of a duration such as `1h30m`, else raises `ValueError`."""
    if not text:
        raise ValueError("empty duration string")
    if text == "0":
        return 0
    total, at, last = 0, 0, None
    order = list(_PROMETHEUS_UNITS)
    while at < len(text):
        part = _PROMETHEUS_PART.match(text, at)
        if part is None or not part[2]:
            raise ValueError(f"not a valid duration string: {quoted(text)}")
        unit = re.match("[a-zA-Zµ]*", part[2])
        name = unit[0] if unit and unit[0] else part[2][0]
        if name not in _PROMETHEUS_UNITS:
            raise ValueError(f"unknown unit {quoted(name)} in duration {quoted(text)}")
        if last is not None and order.index(name) <= order.index(last):
            raise ValueError(f"not a valid duration string: {quoted(text)}")
        total += int(part[1]) * _PROMETHEUS_UNITS[name]
        last, at = name, part.end(1) + len(name)
    if total > _MOST_NANOSECONDS:
        raise ValueError("duration out of range")
    return total


def format_go_duration(nanoseconds: int) -> str:
    """Returns the duration as Go prints it: `1h30m0s`, `1.5s`, `100µs`."""
    if nanoseconds == 0:
        return "0s"
    sign, rest = ("-", -nanoseconds) if nanoseconds < 0 else ("", nanoseconds)
    if rest < _SECOND:
        for unit in ("ms", "µs", "ns"):
            if rest >= _GO_UNITS[unit]:
                return f"{sign}{_decimal(rest, _GO_UNITS[unit])}{unit}"
    minutes, seconds = divmod(rest, 60 * _SECOND)
    hours, minutes = divmod(minutes, 60)
    text = f"{_decimal(seconds, _SECOND)}s"
    if hours or minutes:
        text = f"{minutes}m{text}"
    return f"{sign}{hours}h{text}" if hours else sign + text


def format_prometheus_duration(nanoseconds: int) -> str:
    """Returns the duration as Prometheus prints it: `1h30m`, `5m`, `1w`."""
    if nanoseconds == 0:
        return "0s"
    text, rest = "", nanoseconds
    for unit, size in _PROMETHEUS_UNITS.items():
        if unit in ("y", "w") and (text or rest % size):
            continue
        count, rest = divmod(rest, size)
        if count:
            text += f"{count}{unit}"
    return text


def _decimal(value: int, unit: int) -> str:
    whole, fraction = divmod(value, unit)
    digits = f"{fraction:0{len(str(unit)) - 1}d}".rstrip("0") if fraction else ""
    return f"{whole}.{digits}" if digits else str(whole)


def parse_bytes(text: str) -> int:
    """Returns the bytes of a size such as `1.5 KiB`, cut to a whole number, else raises `ValueError`."""
    end = 0
    while end < len(text) and (text[end].isdecimal() or text[end] in ".,"):
        end += 1
    digits = text[:end].replace(",", "")
    number = int(digits) if digits.isascii() and digits.isdecimal() else parse_float(digits)
    unit = text[end:].strip().lower()
    if unit not in _SIZE_UNITS:
        raise ValueError(f"unhandled size name: {unit}")
    value = number * _SIZE_UNITS[unit]
    if value >= _MOST_BYTES:
        raise ValueError(f"too large: {text}")
    return int(value)


def format_bytes(value: int) -> str:
    """Returns the size as people read it, if that is exact, else in bytes: `3.0MB`, `15kB`, `1024B`."""
    power = min(max(len(str(value)) - 1, 0) // 3, 5)
    size, unit = 1000**power, ("B", "kB", "MB", "GB", "TB", "PB")[power]
    if size == 1:
        return f"{value}B"
    if value * 10 % size or (value >= 10 * size and value % size):
        return f"{value}B"
    return f"{value // size}.{value * 10 // size % 10}{unit}" if value < 10 * size else f"{value // size}{unit}"
