"""Runs a template over the rows of a frame: once for each distinct combination of what it looks at."""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache

import numpy as np
from numpy.typing import NDArray

from frazil.query.logql.columns import Codes, Column, column_of, combined, from_texts
from frazil.query.logql.frame import Frame
from frazil.query.logql.templates.interpreter import Row, render
from frazil.query.logql.templates.tree import (
    Constant,
    Dot,
    Field,
    Function,
    Template,
    Variable,
    pipelines_of,
)
from frazil.query.logql.templates.values import ExecutionFault


@dataclass(frozen=True)
class Rendered:
    texts: Column
    faults: Column | None
    """What went wrong; absent in rows where nothing did. None if nothing did at all."""


@dataclass(frozen=True)
class Inputs:
    """Says what a template looks at."""

    labels: frozenset[str]
    all_labels: bool
    line: bool
    time: bool


@lru_cache(maxsize=64)
def inputs_of(template: Template) -> Inputs:
    names: set[str] = set()
    all_labels = line = time = False
    blocks = [template.nodes, *template.defined.values()]
    for pipeline in (each for block in blocks for each in pipelines_of(block)):
        for command in pipeline.commands:
            for number, argument in enumerate(command.arguments):
                match argument:
                    case Field(None, (first, *_)):
                        names.add(first)
                    case Field(Variable("$"), (first, *_)):
                        names.add(first)
                    case Dot() | Variable("$"):
                        key = _indexed_key(command.arguments, number)
                        if key is None:
                            all_labels = True
                        else:
                            names.add(key)
                    case Function("__line__"):
                        line = True
                    case Function("__timestamp__" | "now"):
                        time = True
    return Inputs(frozenset(names), all_labels, line, time)


def _indexed_key(arguments: tuple[object, ...], number: int) -> str | None:
    """Returns the label that `index . "label"` looks up."""
    match arguments:
        case (Function("index"), _, Constant(str() as key)) if number == 1:
            return key
    return None


def rendered(template: Template, frame: Frame) -> Rendered:
    inputs = inputs_of(template)
    names = frame.all_names() if inputs.all_labels else sorted(inputs.labels)
    columns = {name: frame.label(name) for name in names}
    codes: list[Codes] = [column.codes for column in columns.values()]
    line = column_of(frame.lines) if inputs.line else None
    if line is not None:
        codes.append(line.codes)
    times = frame.times_ns if inputs.time else np.zeros(frame.rows, np.int64)
    if inputs.time:
        codes.append(np.unique(times, return_inverse=True)[1].astype(np.int32))
    numbers, firsts = combined(codes, frame.rows)
    texts, faults = _rendered_rows(template, columns, line, times, firsts.tolist())
    return Rendered(_of_rows(texts, numbers), _of_rows(faults, numbers) if any(faults) else None)


def _rendered_rows(
    template: Template,
    columns: dict[str, Column],
    line: Column | None,
    times: NDArray[np.int64],
    rows: list[int],
) -> tuple[list[str | None], list[str | None]]:
    texts: list[str | None] = []
    faults: list[str | None] = []
    for row in rows:
        labels = {name: column.texts[code] for name, column in columns.items() if (code := column.codes[row]) >= 0}
        try:
            text = line.texts[line.codes[row]] if line is not None else ""
            texts.append(render(template, Row(labels, text, int(times[row]))))
            faults.append(None)
        except ExecutionFault as fault:
            texts.append(None)
            faults.append(str(fault))
    return texts, faults


def _of_rows(texts: list[str | None], numbers: NDArray[np.int64]) -> Column:
    column = from_texts(texts)
    return Column(np.append(column.codes, -1).astype(np.int32)[numbers], column.values)
