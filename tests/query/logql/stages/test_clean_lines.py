"""Labels that are extracted from plain lines all at once are those that a parser finds line by line."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from frazil.query.logql.columns import Column
from frazil.query.logql.frame import Frame
from frazil.query.logql.parse.log_tree import JsonParser, LogfmtParser
from frazil.query.logql.stages.clean_lines import FLAT_JSON, PLAIN_LOGFMT, CleanForm, extract_clean
from frazil.query.logql.stages.findings import Wanted
from frazil.query.logql.stages.json_parser import parse_json
from frazil.query.logql.stages.logfmt_parser import parse_logfmt
from tests.query.logql.memory_source import MemoryBlock

NAMES = frozenset(("a", "b1"))

_JSON_WORDS = ["{", "}", ",", ":", " ", '"a"', '"a":', '"b1":', '"x y"', '"a,"', '"\\"a\\":1"', "1", "-1.5e3",
               "true", "null", '"b1"', "[1]", '{"a":2}', '"\ufffd"', '"é"', "x", '""', ',"a":"v"', '{"b1":7',
               "01"]  # fmt: skip
_LOGFMT_WORDS = ["a=", "b1=", "a", " ", "  ", "x", "1", '"q r"', '"a=5"', '"\\n"', "=", '"', "é", "\t", "a=1 ",
                 "b1=2 ",
                 'b1="', "c.d=5", "a=\ufffd", '""']  # fmt: skip


def frame_of(lines: list[str]) -> Frame:
    rows = len(lines)
    streams = [{"app": "x"}]
    times = np.arange(rows, dtype=np.int64)
    return Frame(MemoryBlock(times, pa.array(lines, pa.string()), streams, np.zeros(rows, np.int32), {}))


def texts(column: Column) -> list[str | None]:
    return [None if code < 0 else column.texts[code] for code in column.codes]


def both_ways(lines: list[str], stage: JsonParser | LogfmtParser) -> None:
    quick, slow = frame_of(lines), frame_of(lines)
    for frame, wanted in ((quick, Wanted(NAMES)), (slow, Wanted(None))):
        if isinstance(stage, JsonParser):
            parse_json(stage, frame, wanted)
        else:
            parse_logfmt(stage, frame, wanted)
    for name in NAMES:
        assert texts(quick.column("parsed", name)) == texts(slow.column("parsed", name)), lines


@given(st.lists(st.lists(st.sampled_from(_JSON_WORDS), max_size=9).map("".join), min_size=1, max_size=8))
def test_json(lines: list[str]) -> None:
    both_ways(lines + ["{" + line + "}" for line in lines], JsonParser())


@given(st.lists(st.lists(st.sampled_from(_LOGFMT_WORDS), max_size=9).map("".join), min_size=1, max_size=8))
def test_logfmt(lines: list[str]) -> None:
    both_ways(lines, LogfmtParser())


@pytest.mark.parametrize(
    ("form", "plain", "other"),
    [
        (FLAT_JSON, '{"a": "x", "n": -1.5e3, "t": true} ', '{"a": {"b": 1}}'),
        (PLAIN_LOGFMT, 'a=x b="hi there" flag', 'a="\\n"'),
    ],
)
def test_plain_lines_are_known(form: CleanForm, plain: str, other: str) -> None:
    assert extract_clean(form, frame_of([plain, other]), Wanted(NAMES)).tolist() == [True, False]
