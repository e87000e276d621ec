"""Evaluates info(): adds to each series the labels of the info series of the same instance and job."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np

from frazil.query.promql.evaluation.context import Evaluation, Steps
from frazil.query.promql.evaluation.matrix import Matrix, merge_same, stack
from frazil.query.promql.evaluation.selecting import newest_of, select
from frazil.query.promql.parse.check import accepts_empty
from frazil.query.promql.parse.tree import METRIC_NAME, Call, Matcher, Node, Subquery, VectorSelector
from frazil.query.promql.problems import ExecutionError
from frazil.query.promql.series.labels import LabelTable, concatenate, print_labels
from frazil.query.promql.series.memory import matching_rows
from frazil.query.promql.series.source import Times
from frazil.query.promql.types import ValueType

IDENTIFYING = ("instance", "job")
TARGET_INFO = Matcher(METRIC_NAME, "=", "target_info")
ANY_INFO = Matcher(METRIC_NAME, "=~", ".+_info")
Reference = tuple[float | str | None, int]
"""To which time a selector is bound: `@` and offset."""


def add_info(evaluation: Evaluation, base: Matrix, node: Call, steps: Steps) -> Matrix:
    """Returns the base series with the labels that their info series add."""
    wanted: list[Matcher] = []
    if len(node.arguments) > 1:
        selector = node.arguments[1]
        assert isinstance(selector, VectorSelector)
        wanted = selector.all_matchers
    names = name_matchers([m for m in wanted if m.name == METRIC_NAME])
    data = [m for m in wanted if m.name != METRIC_NAME]
    is_info = matching_rows(base.labels, names)
    info, times = info_series(evaluation, base.labels.take(np.flatnonzero(~is_info)), names, data, node, steps)
    chosen = choose(base.labels, info, times)
    parts = [base.take(np.flatnonzero(is_info))]
    infos = info.labels.rows()
    allowed = {m.name for m in data}
    needs_info = not all(accepts_empty(m) for m in data)
    for row in np.flatnonzero(~is_info):
        parts += row_with_info(base, int(row), chosen, infos, allowed, needs_info)
    found = stack(parts, base.steps)
    return merge_same(found)


def name_matchers(matchers: Sequence[Matcher]) -> list[Matcher]:
    """Returns which metrics are info metrics; where only some are excluded, all that end so."""
    if not matchers:
        return [TARGET_INFO]
    if any(m.op in ("=", "=~") for m in matchers):
        return list(matchers)
    return [ANY_INFO, *matchers]


def info_series(
    evaluation: Evaluation,
    base: LabelTable,
    names: Sequence[Matcher],
    data: Sequence[Matcher],
    node: Call,
    steps: Steps,
) -> tuple[Matrix, Times]:
    """Returns the info series of the instances and jobs of the base series, and when their samples were."""
    at, offset = info_time(evaluation, node.arguments[0])
    moments = steps.times - offset
    if at is not None:
        moment = {"start": evaluation.query.first, "end": evaluation.query.last}.get(str(at))
        moments = np.full(steps.count, (round(float(at) * 1000) if moment is None else moment) - offset, np.int64)
    begin, end = int(moments[0]) - evaluation.options.lookback_ms + 1, int(moments[-1])
    columns = [base.get(label) for label in IDENTIFYING]
    present = [column.codes != 0 for column in columns]
    parts, times = [], []
    for shape in ((False, True), (True, False), (True, True)):
        rows = (present[0] == shape[0]) & (present[1] == shape[1])
        if not rows.any():
            continue
        identity = [
            Matcher(label, "=~", "|".join(sorted(escape(c.values[code]) for code in np.unique(c.codes[rows]))))
            if wanted
            else Matcher(label, "=", "")
            for label, c, wanted in zip(IDENTIFYING, columns, shape, strict=True)
        ]
        for block in select(evaluation, [*identity, *data, *names], begin, end, 0):
            found = newest_of(evaluation, block, moments)
            if found.matrix.histograms.any():
                row = int(np.flatnonzero(found.matrix.histograms.any(axis=1))[0])
                shown = print_labels(found.matrix.labels.row(row))
                raise ExecutionError(f"this should be an info metric, with float samples: {shown}")
            parts.append(found.matrix)
            times.append(found.times)
    info = stack(parts, steps.count)
    when = [t for t, part in zip(times, parts, strict=True) if part.size]
    return info, np.concatenate(when) if when else np.empty((0, steps.count), np.int64)


def escape(text: str) -> str:
    """Quotes what regular expressions give a meaning to."""
    return "".join("\\" + char if char in r"\.+*?()|[]{}^$" else char for char in text)


def info_time(evaluation: Evaluation, argument: Node) -> Reference:
    """Returns to which time all selectors of the argument are bound; no binding if they differ."""
    found: list[Reference] = []

    def visit(node: Node, path: tuple[Subquery, ...]) -> bool:
        """Returns whether a selector is below; collects what it is bound to."""
        if node.type not in (ValueType.VECTOR, ValueType.MATRIX):
            return True
        if isinstance(node, VectorSelector):
            at, offset = node.at, evaluation.duration_ms(node.offset, may_be_negative=True)
            for subquery in reversed(path):
                if at is not None:
                    break
                offset += evaluation.duration_ms(subquery.offset, may_be_negative=True)
                at = subquery.at
            found.append((at, offset))
            return True
        if isinstance(node, Subquery):
            path = (*path, node)
        children = list(node.children())
        if isinstance(node, Call) and node.function == "info":
            children = children[:1]
        vectors = [child for child in children if child.type in (ValueType.VECTOR, ValueType.MATRIX)]
        bound = [visit(child, path) for child in vectors]
        return bool(bound) and all(bound)

    bound = visit(argument, ())
    if not bound or len(set(found)) != 1:
        return None, 0
    return found[0]


def choose(base: LabelTable, info: Matrix, times: Times) -> dict[str, np.typing.NDArray[np.int64]]:
    """Returns for each info metric which of its series belongs to a base series at a step, or -1."""
    steps = info.steps
    both = concatenate([base.keep(IDENTIFYING), info.labels.keep(IDENTIFYING)])
    _, key = np.unique(both.keys(), return_inverse=True)
    key = key.reshape(-1)
    base_key, info_key = key[: base.size], key[base.size :]
    names = info.labels.get(METRIC_NAME).strings()
    chosen: dict[str, np.typing.NDArray[np.int64]] = {}
    for name in dict.fromkeys(names):
        by_key = np.full((int(key.max(initial=-1)) + 1, steps), -1, np.int64)
        for row in [at for at, text in enumerate(names) if text == name]:
            at = info_key[row]
            current = by_key[at]
            here = info.mask[row]
            rival = here & (current >= 0)
            current_times = times[np.maximum(current, 0), np.arange(steps)]
            if (rival & (current_times == times[row])).any():
                step = int(np.flatnonzero(rival & (current_times == times[row]))[0])
                old, new = (print_labels(info.labels.row(int(r))) for r in (current[step], row))
                moment = int(times[row][step])
                raise ExecutionError(
                    f"found duplicate series for info metric: existing {old} @ {moment}, new {new} @ {moment}"
                )
            by_key[at] = np.where(here & ((current < 0) | (times[row] > current_times)), row, current)
        chosen[name] = by_key[base_key]
    return chosen


def row_with_info(
    base: Matrix,
    row: int,
    chosen: Mapping[str, np.typing.NDArray[np.int64]],
    infos: list[dict[str, str]],
    allowed: set[str],
    needs_info: bool,
) -> list[Matrix]:
    """Returns a base series with its info labels: a series for each combination that some step has."""
    one = base.take(np.array([row]))
    choices = np.stack([picked[row] for picked in chosen.values()]) if chosen else np.empty((0, base.steps), np.int64)
    labels = base.labels.row(row)
    parts = []
    for combination in np.unique(choices.T, axis=0) if len(choices) else [np.empty(0, np.int64)]:
        steps = (combination == choices.T).all(axis=1)
        if not (steps & one.mask[0]).any():
            continue
        picked = [infos[at] for at in combination if at >= 0]
        if not picked and needs_info:
            continue
        added: dict[str, str] = {}
        for info in picked:
            for label, value in info.items():
                if label == METRIC_NAME or (allowed and label not in allowed):
                    continue
                if added.get(label, value) != value:
                    raise ExecutionError(f"conflicting label: {label}")
                if label not in labels:
                    added[label] = value
        part = one.where(np.broadcast_to(steps, one.mask.shape))
        parts.append(part.with_labels(LabelTable.of([{**labels, **added}])))
    return parts
