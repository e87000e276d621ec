"""Finds the fields that the newest lines of a query have: structured metadata, and members of JSON and logfmt."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from frazil.query.logql.api.field_kinds import kind_of
from frazil.query.logql.blocks import Labels
from frazil.query.logql.columns import Codes, Column, empty_column
from frazil.query.logql.frame import ERROR, ERROR_DETAILS, EXTRACTED, Frame
from frazil.query.logql.log_results import Entry
from frazil.query.logql.parse.log_tree import LogfmtParser
from frazil.query.logql.stages.findings import Wanted, label_name, sanitized
from frazil.query.logql.stages.pipeline import Pipeline

_DEEPEST = 32
_LOGFMT = Pipeline((LogfmtParser(),), Wanted(None))


@dataclass(frozen=True)
class _Lines:
    """Is a block of lines without labels."""

    lines: pa.Array

    @property
    def rows(self) -> int:
        return len(self.lines)

    @property
    def times_ns(self) -> NDArray[np.int64]:
        return np.zeros(self.rows, np.int64)

    @property
    def streams(self) -> Sequence[Labels]:
        return [{}]

    @property
    def stream_codes(self) -> Codes:
        return np.zeros(self.rows, np.int32)

    def metadata_names(self) -> Sequence[str]:
        return ()

    def metadata(self, name: str) -> Column:
        return empty_column(self.rows)


@dataclass
class Field:
    kind: str = ""
    values: dict[str, None] = field(default_factory=dict)
    parsers: dict[str, None] = field(default_factory=dict)
    """Is empty for structured metadata."""
    json_path: tuple[str, ...] = ()

    def add(self, value: str) -> None:
        if value not in self.values:
            self.values[value] = None
            self.kind = kind_of(value)


def fields_of(entries: Iterable[Entry]) -> dict[str, Field]:
    """Returns the fields by the name that a parser would give them."""
    found: dict[str, Field] = {}
    others: list[Entry] = []
    for entry in entries:
        for name, value in entry.labels.metadata:
            found.setdefault(name, Field()).add(value)
        members = _json_members(entry.line)
        if members is None:
            others.append(entry)
            continue
        taken = _taken(entry)
        for path, value in members:
            if name := _json_name(path):
                each = found.setdefault(name + EXTRACTED if name in taken else name, Field())
                each.parsers["json"] = None
                each.json_path = path
                each.add(value)
    for entry, pairs in zip(others, _logfmt_pairs(others), strict=True):
        taken = _taken(entry)
        for name, value in pairs:
            each = found.setdefault(name + EXTRACTED if name in taken else name, Field())
            each.parsers["logfmt"] = None
            each.add(value)
    return found


def _taken(entry: Entry) -> set[str]:
    return {name for name, _ in (*entry.labels.stream, *entry.labels.metadata)}


def _json_members(line: str) -> list[tuple[tuple[str, ...], str]] | None:
    """Returns paths and values of a line that is a JSON object, else None."""
    if not line.lstrip().startswith("{"):
        return None
    try:
        value = json.loads(line, parse_int=str, parse_float=str, parse_constant=str)
        return list(_members(value, ())) if isinstance(value, dict) else None
    except (ValueError, RecursionError):
        return None


def _members(value: dict[str, Any], path: tuple[str, ...]) -> Iterator[tuple[tuple[str, ...], str]]:
    for key, member in value.items():
        place = (*path, key)
        if isinstance(member, dict):
            if len(place) < _DEEPEST:
                yield from _members(member, place)
        elif isinstance(member, bool):
            yield place, "true" if member else "false"
        elif isinstance(member, str):
            yield place, member.encode(errors="replace").decode()


def _json_name(path: tuple[str, ...]) -> str:
    parts = [sanitized(part, begins=False) for part in path if part]
    return label_name("_".join(parts)) if parts else ""


def _logfmt_pairs(entries: list[Entry]) -> list[list[tuple[str, str]]]:
    """Returns the pairs that each of these lines has."""
    pairs: list[list[tuple[str, str]]] = [[] for _ in entries]
    if not entries:
        return pairs
    lines = pa.array([entry.line for entry in entries], pa.string())
    frame = Frame(_Lines(lines))
    _LOGFMT.run(frame)
    for name in frame.names("parsed"):
        if name not in (ERROR, ERROR_DETAILS):
            column = frame.column("parsed", name)
            for row in np.flatnonzero(column.present).tolist():
                pairs[row].append((name, column.texts[int(column.codes[row])]))
    return pairs
