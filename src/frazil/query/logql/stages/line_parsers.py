"""Makes labels of lines by regular expressions and patterns, and of packed lines."""

from __future__ import annotations

import numpy as np
import pyarrow as pa

from frazil.query.logql.columns import ABSENT, Column, column_of
from frazil.query.logql.frame import Frame
from frazil.query.logql.line_patterns import parser_pattern
from frazil.query.logql.parse.log_tree import PatternParser, RegexpParser
from frazil.query.logql.regexes import groups_of
from frazil.query.logql.stages.findings import Findings, Wanted, apply, label_name
from frazil.query.logql.stages.json_parser import JSON_ERROR
from frazil.query.logql.stages.json_scanner import JsonFault, members, skip_blanks, unescaped

PACKED_LINE = "_entry"
_NO_OBJECT = "expecting json object(6), but it is not"


def parse_regexp(stage: RegexpParser, frame: Frame, wanted: Wanted) -> None:
    groups = groups_of(stage.pattern)
    extracted = groups.extract(frame.lines)
    missing = wanted.missing(frame)
    matched = np.asarray(extracted.is_valid()) & missing
    for number, name in enumerate(groups.names):
        if name and name in wanted:
            frame.extract(name, column_of(extracted.field(number)).only(matched))


def parse_pattern(stage: PatternParser, frame: Frame, wanted: Wanted) -> None:
    pattern = parser_pattern(stage.pattern)
    names = pattern.names

    def find(lines: list[str], findings: Findings) -> None:
        for number, line in enumerate(lines):
            for name, value in zip(names, pattern.values(line), strict=True):
                if value is not None:
                    findings.add(number, name, value)

    apply(frame, wanted, find)


def unpack(frame: Frame, wanted: Wanted) -> None:
    """Makes labels of a packed line's texts, and the line of its entry."""
    entries: dict[int, str] = {}

    def find(lines: list[str], findings: Findings) -> None:
        for number, line in enumerate(lines):
            try:
                texts = _texts(line)
            except JsonFault as fault:
                if not wanted.nothing:
                    findings.fail(number, JSON_ERROR, str(fault))
                continue
            if PACKED_LINE not in texts:
                continue
            entries[number] = texts.pop(PACKED_LINE)
            for key, value in texts.items():
                findings.add(number, label_name(key), value)

    line_of_row = apply(frame, wanted, find, always=True)
    if entries:
        codes = np.full(int(line_of_row.max(initial=ABSENT)) + 2, ABSENT, np.int32)
        codes[list(entries)] = np.arange(len(entries))
        packed = Column(codes[line_of_row], pa.array(list(entries.values()), pa.string()))
        frame.lines = packed.over(column_of(frame.lines)).filled()


def _texts(line: str) -> dict[str, str]:
    start = skip_blanks(line, 0)
    if not line.startswith("{", start):
        raise JsonFault(_NO_OBJECT)
    found: dict[str, str] = {}
    for key, begin, end in members(line, start):
        if line[begin] == '"':
            found.setdefault(key, unescaped(line[begin + 1 : end - 1]))
    return found
