"""Evaluates functions that change labels or order by them."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import replace
from functools import cmp_to_key

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from frazil.query.promql.evaluation.matrix import Matrix, merge_same
from frazil.query.promql.parse.regex import anchored, regex_problem
from frazil.query.promql.parse.tree import METRIC_NAME
from frazil.query.promql.problems import ExecutionError
from frazil.query.promql.series.labels import Column, Rows, column_of

REFERENCE = re.compile(r"\$(?:\$|(\w+)|\{(\w+)\})", re.ASCII)
CHUNKS = re.compile(r"\d+|\D+", re.ASCII)


def valid_label(name: str) -> bool:
    return bool(name) and not any("\udc80" <= char <= "\udcff" for char in name)


def set_label(matrix: Matrix, label: str, column: Column, changed: np.typing.NDArray[np.bool_]) -> Matrix:
    """Gives series a label. Whoever sets the name keeps it."""
    dropped = matrix.dropped
    if label == METRIC_NAME and dropped is not None:
        dropped = dropped & ~changed
    return merge_same(replace(matrix, labels=matrix.labels.with_column(label, column), dropped=dropped))


def label_replace(matrix: Matrix, label: str, replacement: str, source: str, pattern: str) -> Matrix:
    """Sets a label to what a template makes of the matches of another label's value."""
    if regex_problem(pattern):
        raise ExecutionError(f"invalid regular expression in label_replace(): {pattern}")
    if not valid_label(label):
        raise ExecutionError(f"invalid destination label name in label_replace(): {label}")
    values = matrix.labels.get(source)
    expanded = expand(values.values, pattern, replacement)
    old = matrix.labels.get(label)
    matched = np.array([text is not None for text in expanded])[values.codes]
    known = {text: code for code, text in enumerate(old.values)}
    codes = [0 if text is None else known.setdefault(text, len(known)) for text in expanded]
    column = Column(
        np.where(matched, np.array(codes, np.int32)[values.codes], old.codes).astype(np.int32), list(known)
    )
    return set_label(matrix, label, column, matched)


def expand(values: Sequence[str], pattern: str, template: str) -> list[str | None]:
    """Returns for each value what the template makes of it; None where the pattern does not match."""
    named, groups = with_named_groups(pattern)
    array = pa.array([value.encode("utf-8", "surrogateescape").decode("utf-8", "replace") for value in values])
    found = pc.extract_regex(array, f"(?P<whole>{anchored(named)})").to_pylist()
    return [None if match is None else fill(template, match, groups) for match in found]


def with_named_groups(pattern: str) -> tuple[str, dict[str, str]]:
    """Gives every group of a pattern a name of its own; returns it with what the groups were called."""
    out, names, at, number, in_class = [], {"0": "whole"}, 0, 0, False
    while at < len(pattern):
        char = pattern[at]
        if char == "\\":
            out.append(pattern[at : at + 2])
            at += 2
            continue
        if char == "[" and not in_class:
            in_class = True
            end = at + 1 + (pattern[at + 1 : at + 2] == "^")
            end += pattern[end : end + 1] == "]"
            out.append(pattern[at:end])
            at = end
            continue
        if char == "]":
            in_class = False
        if char == "(" and not in_class:
            named = re.match(r"\(\?P?<(\w+)>", pattern[at:], re.ASCII)
            if named or pattern[at + 1 : at + 2] != "?":
                number += 1
                names[str(number)] = f"group{number}"
                if named:
                    names.setdefault(named.group(1), f"group{number}")
                    at += len(named.group())
                else:
                    at += 1
                out.append(f"(?P<group{number}>")
                continue
        out.append(char)
        at += 1
    return "".join(out), names


def fill(template: str, match: dict[str, str], groups: dict[str, str]) -> str:
    def value(found: re.Match[str]) -> str:
        if found.group() == "$$":
            return "$"
        return match.get(groups.get(found.group(1) or found.group(2), ""), "") or ""

    return REFERENCE.sub(value, template)


def label_join(matrix: Matrix, label: str, separator: str, sources: Sequence[str]) -> Matrix:
    """Sets a label to the values of other labels."""
    for source in sources:
        if not valid_label(source):
            raise ExecutionError(f"invalid source label name in label_join(): {source}")
    if not valid_label(label):
        raise ExecutionError(f"invalid destination label name in label_join(): {label}")
    keys = matrix.labels.keys(sources)
    _, first, group = np.unique(keys, return_index=True, return_inverse=True)
    columns = [matrix.labels.get(source) for source in sources]
    texts = [separator.join(c.values[c.codes[row]] for c in columns) for row in first]
    column = column_of(texts[at] for at in group.reshape(-1))
    return set_label(matrix, label, column, np.ones(matrix.size, bool))


def natural_less(one: str, other: str) -> bool:
    """Compares texts so that runs of digits count as numbers."""
    left, right = CHUNKS.findall(one), CHUNKS.findall(other)
    for at, chunk in enumerate(left):
        if at >= len(right):
            return False
        theirs = right[at]
        if chunk.isdigit() and theirs.isdigit():
            if int(chunk) != int(theirs):
                return int(chunk) < int(theirs)
        elif chunk != theirs:
            return bool(chunk < theirs)
        if at == len(left) - 1:
            return True
        if at == len(right) - 1:
            return False
    return False


def order_by_labels(matrix: Matrix, names: Sequence[str], descending: bool) -> Rows:
    """Returns the rows in natural order of some labels; equal ones by all labels."""
    ranks = np.empty(matrix.size, np.int64)
    ranks[matrix.labels.order()] = np.arange(matrix.size)
    columns = [matrix.labels.get(name) for name in names]
    sign = -1 if descending else 1

    def compare(one: int, other: int) -> int:
        for column in columns:
            left, right = column.values[column.codes[one]], column.values[column.codes[other]]
            if left != right:
                return -sign if natural_less(left, right) else sign
        return sign * int(ranks[one] - ranks[other])

    return np.array(sorted(range(matrix.size), key=cmp_to_key(compare)), np.int64)


def order_by_value(matrix: Matrix, descending: bool) -> Rows:
    """Returns the rows by value; NaN last."""
    values = matrix.values[:, 0]
    keyed = -values if descending else values
    return np.lexsort([np.where(np.isnan(keyed), 0.0, keyed), np.isnan(keyed)])
