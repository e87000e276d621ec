"""Makes labels of lines that are JSON."""

from __future__ import annotations

import json
import re
from typing import Any

from frazil.query.logql.frame import Frame
from frazil.query.logql.json_paths import Path, path_of
from frazil.query.logql.parse.log_tree import JsonParser
from frazil.query.logql.stages.clean_lines import FLAT_JSON, extract_clean
from frazil.query.logql.stages.findings import Findings, Wanted, apply, sanitized
from frazil.query.logql.stages.json_scanner import (
    JsonFault,
    elements,
    members,
    skip_blanks,
    unescaped,
    value_end,
)

JSON_ERROR = "JSONParserErr"

_SURROGATE = re.compile(r"\\u[dD][89a-fA-F]")
_DEPTH = 200
"""Objects that are nested deeper are read as mistakes."""


def parse_json(stage: JsonParser, frame: Frame, wanted: Wanted) -> None:
    if stage.extractions:
        paths = [(each.label, path_of(each.source)) for each in stage.extractions if each.label in wanted]
        apply(frame, wanted, lambda lines, findings: _find_paths(lines, findings, paths), replaces=True)
    else:
        done = extract_clean(FLAT_JSON, frame, wanted)
        apply(frame, wanted, lambda lines, findings: _find_all(lines, findings, wanted), filled=False, done=done)


class _NoConstant(ValueError):
    pass


def _refuse(_: str) -> None:
    raise _NoConstant


_decode = json.JSONDecoder(
    object_pairs_hook=tuple, parse_int=str, parse_float=str, parse_constant=_refuse, strict=False
).raw_decode


def _find_all(lines: list[str], findings: Findings, wanted: Wanted) -> None:
    for number, line in enumerate(lines):
        flat = _Flattened(findings, number, wanted)
        try:
            start = skip_blanks(line, 0)
            if not line.startswith("{", start) or ("\\u" in line and _SURROGATE.search(line)):
                raise ValueError
            decoded, _ = _decode(line, start)
        except (ValueError, RecursionError):
            _scan(line, flat)
            continue
        flat.add(decoded, "")


def _scan(line: str, flat: _Flattened) -> None:
    """Reads a line that is no plain JSON, up to the first mistake."""
    try:
        flat.scan(line, 0, "", 0)
    except JsonFault as fault:
        if not flat.complete:
            flat.findings.fail(flat.number, JSON_ERROR, str(fault))


class _Flattened:
    """Takes the members of objects, with the names of all objects around them."""

    _names: dict[tuple[str, str], str] = {}  # noqa: RUF012 - shared by all lines

    def __init__(self, findings: Findings, number: int, wanted: Wanted) -> None:
        self.findings = findings
        self.number = number
        self._wanted = wanted
        self._missing = None if wanted.all else set(wanted.names)

    @property
    def complete(self) -> bool:
        return self._missing is not None and not self._missing

    def add(self, pairs: tuple[tuple[str, Any], ...], prefix: str) -> None:
        for key, value in pairs:
            kind = type(value)
            if kind is str:
                self._put(prefix, key, value)
            elif kind is tuple:
                self.add(value, self._name(prefix, key))
            elif kind is bool:
                self._put(prefix, key, "true" if value else "false")

    def scan(self, text: str, at: int, prefix: str, depth: int) -> None:
        for key, start, end in members(text, at):
            first = text[start]
            if first == '"':
                self._put(prefix, key, unescaped(text[start + 1 : end - 1]))
            elif first == "{":
                if depth == _DEPTH:
                    raise JsonFault("the objects are nested too deeply")
                self.scan(text, start, self._name(prefix, key), depth + 1)
            elif first != "[" and text[start:end] != "null":
                self._put(prefix, key, text[start:end])
            if self.complete:
                return

    def _name(self, prefix: str, key: str) -> str:
        name = self._names.get((prefix, key))
        if name is None:
            part = sanitized(key.strip(), begins=not prefix)
            name = f"{prefix}_{part}" if prefix and part else prefix + part
            if len(self._names) > 65_536:
                self._names.clear()
            self._names[prefix, key] = name
        return name

    def _put(self, prefix: str, key: str, value: str) -> None:
        name = self._name(prefix, key)
        if name and name in self._wanted:
            self.findings.add(self.number, name, value.replace("\ufffd", " "))
            if self._missing is not None:
                self._missing.discard(name)


def _find_paths(lines: list[str], findings: Findings, paths: list[tuple[str, Path]]) -> None:
    for number, line in enumerate(lines):
        start = skip_blanks(line, 0)
        if not line.startswith(("{", "[", '"'), start):
            findings.fail(number, JSON_ERROR, None)
            continue
        for label, path in paths:
            value = _at_path(line, start, path)
            if value is None:
                findings.miss(number, label)
            else:
                findings.put(number, label, value)


def _at_path(line: str, at: int, path: Path) -> str | None:
    """Returns the text of what is under the path, or None if there is nothing."""
    try:
        for step in path:
            found = _step(line, at, step)
            if found is None:
                return None
            at = found
        end = value_end(line, at)
    except JsonFault:
        return None
    if line[at] == '"':
        return unescaped(line[at + 1 : end - 1]).replace("\ufffd", " ")
    text = line[at:end]
    return None if text == "null" else text


def _step(line: str, at: int, step: str | int) -> int | None:
    if isinstance(step, int):
        if not line.startswith("[", at):
            return None
        return next((start for number, (start, _) in enumerate(elements(line, at)) if number == step), None)
    if not line.startswith("{", at):
        return None
    return next((start for key, start, _ in members(line, at) if key == step), None)
