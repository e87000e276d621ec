"""Extracts few labels of lines that are plain JSON or logfmt, all lines at once.

A regular expression decides which lines are so plain that another one finds exactly what a parser would find. All
other lines are left to the parser.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from functools import lru_cache

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from frazil.query.logql.columns import ABSENT, Column, Mask, column_of
from frazil.query.logql.frame import Frame
from frazil.query.logql.regexes import groups_of, matches
from frazil.query.logql.stages.findings import Wanted

_MOST_LABELS = 8
"""For more labels it is quicker to parse each line."""

_NAME = "[A-Za-z_][A-Za-z0-9_]*"
_NUMBER = r"-?[0-9]+(?:\.[0-9]+)?(?:[eE][+-]?[0-9]+)?"
_PAIR = rf'\s*"{_NAME}"\s*:\s*(?:"[^"\\\x{{fffd}}]*"|{_NUMBER}|true|false|null)\s*'
_BLANK = r"[\x00-\x20]"
_PLAIN = r"[^\x00-\x20=\"\x{fffd}]*"


@dataclass(frozen=True)
class CleanForm:
    """Says which lines are plain, and what the value of a key looks like in them."""

    line: str
    value: str
    """With `KEY` for the key; all its groups together are the value."""


FLAT_JSON = CleanForm(
    line=rf"^\s*\{{(?:{_PAIR}(?:,{_PAIR})*|\s*)\}}\s*$",
    value=rf'[{{,]\s*"KEY"\s*:\s*(?:"([^"]*)"|({_NUMBER})|(true|false))',
)
PLAIN_LOGFMT = CleanForm(
    line=rf'^{_BLANK}*(?:{_NAME}(?:=(?:"[^"\\=\x{{fffd}}]*"|{_PLAIN}))?(?:{_BLANK}+|$))*$',
    value=rf'(?:^|{_BLANK})KEY=(?:"([^"]+)"|([^\x00-\x20="]+))',
)


def extract_clean(form: CleanForm, frame: Frame, wanted: Wanted) -> Mask:
    """Extracts the wanted labels of plain lines, and returns the rows of these lines."""
    if wanted.all or len(wanted.names) > _MOST_LABELS:
        return np.zeros(frame.rows, np.bool_)
    clean = np.asarray(matches(frame.lines, form.line)) & wanted.missing(frame)
    rows = np.flatnonzero(clean)
    if len(rows):
        lines = frame.lines.take(pa.array(rows))
        for name in sorted(wanted.names):
            if re.fullmatch(_NAME, name):
                frame.extract(name, _spread(_values(form, name, lines), rows, frame.rows))
    return clean


@lru_cache(maxsize=1024)
def _pattern(form: CleanForm, name: str) -> str:
    return groups_of(form.value.replace("KEY", name)).pattern


def _values(form: CleanForm, name: str, lines: pa.Array) -> Column:
    found = pc.extract_regex(lines, _pattern(form, name))
    parts = [found.field(number) for number in range(found.type.num_fields)]
    texts = pc.binary_join_element_wise(*parts, "") if len(parts) > 1 else parts[0]
    return column_of(texts).only(np.asarray(found.is_valid()))


def _spread(column: Column, rows: NDArray[np.intp], count: int) -> Column:
    codes = np.full(count, ABSENT, np.int32)
    codes[rows] = column.codes
    return Column(codes, column.values)
