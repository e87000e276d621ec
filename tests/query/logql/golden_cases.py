"""Reads golden cases of log queries.

`stream {…}` begins a stream, and after queries everything anew; `SECOND [meta{…}] LINE` adds a line to it.
`query …` asks for all lines, oldest first; `= SECOND {LABELS} LINE` is an expected line, `! TEXT` a text in the
expected error. `\\e` in lines is an escape.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
import pyarrow as pa

from frazil.query.logql.columns import from_texts
from frazil.query.logql.log_results import Entry
from frazil.query.logql.metrics.matrix import printed_labels
from tests.query.logql.memory_source import MemoryBlock, MemorySource

SECOND = 1_000_000_000
_LABEL = re.compile(r'([A-Za-z_]\w*)="((?:[^"\\]|\\.)*)"')
_LINE = re.compile(r"(\d+) (?:meta(\{.*?\}) )?(.*)")


@dataclass
class GoldenCase:
    place: str
    query: str
    source: MemorySource
    expected: list[str] = field(default_factory=list)
    error: str = ""


@dataclass
class _Stored:
    labels: dict[str, str]
    second: int
    metadata: dict[str, str]
    line: str


def golden_cases(folder: Path) -> list[GoldenCase]:
    found: list[GoldenCase] = []
    for path in sorted(folder.glob("*.txt")):
        stored: list[_Stored] = []
        labels: dict[str, str] = {}
        asked = False
        for number, text in enumerate(path.read_text().splitlines(), 1):
            word, _, rest = text.partition(" ")
            if word == "stream":
                if asked:
                    stored, asked = [], False
                labels = _labels(rest)
            elif word.isdecimal():
                line = _LINE.fullmatch(text)
                assert line is not None, f"{path.name}:{number}"
                stored.append(_Stored(labels, int(line[1]), _labels(line[2] or ""), line[3].replace(r"\e", "\x1b")))
            elif word == "query":
                found.append(GoldenCase(f"{path.name}:{number}", rest, _source(stored)))
                asked = True
            elif word == "=":
                found[-1].expected.append(rest)
            elif word == "!":
                found[-1].error = rest
            else:
                assert not text or text.startswith("#"), f"{path.name}:{number}: {text}"
    return found


def _labels(text: str) -> dict[str, str]:
    return dict(_LABEL.findall(text))


def _source(stored: list[_Stored]) -> MemorySource:
    streams: dict[tuple[tuple[str, str], ...], int] = {}
    codes = [streams.setdefault(tuple(each.labels.items()), len(streams)) for each in stored]
    names = sorted({name for each in stored for name in each.metadata})
    block = MemoryBlock(
        times_ns=np.array([each.second * SECOND for each in stored], np.int64),
        lines=pa.array([each.line for each in stored], pa.string()),
        streams=[dict(labels) for labels in streams],
        stream_codes=np.array(codes, np.int32),
        metadata_columns={name: from_texts(each.metadata.get(name) for each in stored) for name in names},
    )
    return MemorySource(block, rows_at_once=2)


def shown(entry: Entry) -> str:
    labels = printed_labels(entry.labels.merged())
    return f"{entry.time_ns // SECOND} {labels} {entry.line}".replace("\x1b", r"\e")
