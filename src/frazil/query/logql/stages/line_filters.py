"""Filters rows by their lines."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from frazil.query.logql.addresses import address_range
from frazil.query.logql.columns import Mask
from frazil.query.logql.frame import Frame
from frazil.query.logql.line_patterns import filter_pattern
from frazil.query.logql.parse.log_tree import LineFilter, LineOperand
from frazil.query.logql.regexes import matches

_MAY_HAVE_ADDRESS = {4: r"[0-9]\.[0-9]", 6: ":"}


def filter_lines(stage: LineFilter, frame: Frame) -> None:
    passing = ~_any_fits(stage, frame.lines) if stage.operator.startswith("!") else _any_fits(stage, frame.lines)
    frame.filter(passing)


def _any_fits(stage: LineFilter, lines: pa.Array) -> Mask:
    fits = np.zeros(len(lines), np.bool_)
    for operand in stage.operands:
        fits |= _fits(stage.operator, operand, lines)
    return fits


def _fits(operator: str, operand: LineOperand, lines: pa.Array) -> Mask:
    if operand.is_address:
        return _has_address(operand.text, lines)
    if operator in ("|>", "!>"):
        return _has_pattern(operand.text, lines)
    if operator in ("|~", "!~"):
        return np.asarray(matches(lines, operand.text))
    if not operand.text:
        return np.ones(len(lines), np.bool_)
    return np.asarray(pc.match_substring(lines, operand.text))


def _has_address(text: str, lines: pa.Array) -> Mask:
    addresses = address_range(text)
    return _only_where(lines, np.asarray(matches(lines, _MAY_HAVE_ADDRESS[addresses.version])), addresses.in_text)


def _has_pattern(text: str, lines: pa.Array) -> Mask:
    pattern = filter_pattern(text)
    if not text:
        return np.asarray(pc.equal(pc.binary_length(lines), 0))
    return _only_where(lines, np.asarray(pc.match_substring(lines, pattern.longest_literal)), pattern.fits)


def _only_where(lines: pa.Array, candidates: Mask, test: Callable[[str], bool]) -> Mask:
    """Asks the test only about candidates, one by one."""
    rows = np.flatnonzero(candidates)
    found = np.zeros(len(lines), np.bool_)
    texts = lines.take(pa.array(rows)).to_pylist()
    found[rows] = [test(line) for line in texts]
    return found
