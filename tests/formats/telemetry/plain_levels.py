"""Detects the level of one record as Loki does, step by step, for comparison with the columns."""

from __future__ import annotations

import json
import re
from typing import Any

FIELDS = [
    *("level", "LEVEL", "Level", "log.level", "severity", "SEVERITY", "Severity", "SeverityText"),
    *("lvl", "LVL", "Lvl", "severity_text", "Severity_Text", "SEVERITY_TEXT"),
]
NAMES = {"trc": "trace", "dbg": "debug", "inf": "info", "information": "info", "wrn": "warn", "warning": "warn"}
NAMES |= {"err": "error", **{name: name for name in ("trace", "debug", "info", "warn", "error", "critical", "fatal")}}
WORDS = ("trace", "debug", "fatal", "critical", "error", "err", "warning", "warn", "info")
LEFT, RIGHT = ' \t\n[({"=', ' \t\n[](){}:,!"='


def detected_level(
    line: str,
    labels: dict[str, str],
    metadata: list[tuple[str, str]],
    severity_text: str = "",
    severity_number: int = 0,
) -> str:
    """Returns the level. `metadata` is in order of precedence; OTLP's severity comes last."""
    found: dict[str, str] = {}
    for key, value in metadata:
        if value:
            found.setdefault(re.sub("[^A-Za-z0-9]+", "_", key), value)
    if severity_text:
        found.setdefault("severity_text", severity_text)
    if severity_number:
        found.setdefault("severity_number", str(severity_number))
    if "detected_level" in found:
        return normalised(found["detected_level"])
    for told in (labels, found):
        for name in FIELDS:
            if told.get(name):
                return normalised(told[name])
    if "severity_number" in found:
        return of_number(found["severity_number"])
    return of_line(line)


def normalised(text: str) -> str:
    return NAMES.get(text.lower(), text)


def of_number(text: str) -> str:
    try:
        number = int(text)
    except ValueError:
        return "info"
    if number == 0 or number > 24:
        return "unknown"
    return ("trace", "debug", "info", "warn", "error", "fatal")[max(0, number - 1) // 4]


def of_line(line: str) -> str:
    if line.lstrip()[:1] == "{" and line.rstrip("\t\n\v\f\r ")[-1:] == "}":
        value = of_object(line)
    elif "=" in line:
        value = of_pairs(line)
    else:
        value = None
    return NAMES.get((value or "").lower()) or of_words(line)


def of_words(line: str) -> str:
    line = line.replace("İ", "i").lower()
    starts = [
        (at, word)
        for word in WORDS
        for at in range(len(line))
        if line.startswith(word, at)
        and (not at or line[at - 1] in LEFT)
        and (at + len(word) == len(line) or line[at + len(word)] in RIGHT)
    ]
    return NAMES[min(starts)[1]] if starts else "unknown"


def of_object(line: str) -> str | None:
    def first(members: Any, depth: int) -> str | None:
        for name, value in members:
            if isinstance(value, str) and name in FIELDS:
                return value
            if isinstance(value, tuple) and depth < 2 and (found := first(value, depth + 1)) is not None:
                return found
        return None

    if line[: len(line) - len(line.lstrip())].strip(" \t\r\n"):
        return None
    try:
        return first(json.loads(line.strip(), object_pairs_hook=tuple), 1)
    except ValueError:
        return None


def of_pairs(line: str) -> str | None:
    """Reads pairs one after the other, until one is invalid."""
    best, found, at = len(FIELDS), None, 0
    fields = [field.lower() for field in FIELDS]
    while at < len(line):
        if line[at] <= " ":
            at += 1
            continue
        start = at
        while at < len(line) and line[at] > " " and line[at] not in '="':
            at += 1
        key, value = line[start:at].replace("ſ", "s").lower(), None
        if "\N{REPLACEMENT CHARACTER}" in key or line[at : at + 1] == '"' or (not key and line[at : at + 1] == "="):
            break
        if line[at : at + 1] == "=":
            at += 1
            start = at
            if line[at : at + 1] == '"':
                quoted = re.compile(r'"((?:[^"\\]|\\.)*)"', re.DOTALL).match(line, at)
                if not quoted or not good_escapes(quoted[1]):
                    break
                value, at = quoted[1], quoted.end()
            else:
                while at < len(line) and line[at] > " " and line[at] not in '="':
                    at += 1
                if line[at : at + 1] in ("=", '"') and at < len(line):
                    break
                value = line[start:at]
        if key in fields and fields.index(key) < best:
            best, found = fields.index(key), value
            if not best:
                break
    return found


def good_escapes(text: str) -> bool:
    if "\\" not in text:
        return True
    return re.fullmatch(r"""(?:[^\\\x00-\x1f]|\\["'\\/bfnrt]|\\u[0-9A-Fa-f]{4})*""", text) is not None
