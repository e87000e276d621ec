"""Says of what kind the value of a field is: a number, a duration, a size, …"""

from __future__ import annotations

import re
from collections.abc import Callable

from frazil.query.logql.go_numbers import parse_bytes, parse_float, parse_go_duration

_INTEGER = re.compile(r"[+-]?\d{1,19}", re.ASCII)
_BOOLEANS = frozenset({"1", "t", "T", "TRUE", "true", "True", "0", "f", "F", "FALSE", "false", "False"})


def kind_of(value: str) -> str:
    if _INTEGER.fullmatch(value):
        return "int"
    if _parses(parse_float, value):
        return "float"
    if value in _BOOLEANS:
        return "boolean"
    if _parses(parse_go_duration, value):
        return "duration"
    return "bytes" if _parses(parse_bytes, value) else "string"


def _parses(parse: Callable[[str], object], value: str) -> bool:
    try:
        parse(value)
    except ValueError:
        return False
    return True
