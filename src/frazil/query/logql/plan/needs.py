"""Finds out which labels and lines a query looks at, so that nothing else is read or parsed."""

from __future__ import annotations

from dataclasses import dataclass

from frazil.query.logql.frame import ERROR, EXTRACTED
from frazil.query.logql.parse.log_tree import (
    AddressFilter,
    BothFilters,
    BytesFilter,
    DropLabels,
    DurationFilter,
    EitherFilter,
    JsonParser,
    KeepLabels,
    LabelCondition,
    LabelFilter,
    LabelFormat,
    LineFormat,
    LogfmtParser,
    NumberFilter,
    PatternParser,
    RegexpParser,
    Stage,
    TextFilter,
)
from frazil.query.logql.parse.metric_tree import Grouping, LogRange
from frazil.query.logql.stages.pipeline import reads_line, without_unread_lines
from frazil.query.logql.stages.template_columns import inputs_of
from frazil.query.logql.templates.parser import compiled

_PARSERS = (JsonParser, LogfmtParser, RegexpParser, PatternParser)


@dataclass(frozen=True)
class Needs:
    stages: tuple[Stage, ...]
    """The stages whose work is looked at."""
    labels: frozenset[str] | None
    """Labels that the query looks at; None stands for all."""
    parsed: frozenset[str] | None
    """Labels that parsers must find; None stands for all."""
    lines: bool
    counts_errors: bool = False
    """Whether errors are a label of the result and do not end the query."""


def needs_of_range(
    log_range: LogRange, grouping: Grouping | None, *, reads_lines: bool, needs_no_labels: bool
) -> Needs:
    """Returns the needs of a range whose samples are grouped so; without a grouping all labels are needed."""
    stages = log_range.query.stages if reads_lines else without_unread_lines(log_range.query.stages)
    names = named_labels(stages)
    if names is not None and log_range.unwrap:
        names |= {log_range.unwrap.label}
        for stage in log_range.unwrap.filters:
            names |= condition_labels(stage.condition)
    parsed: frozenset[str] | None = None
    if names is not None and (needs_no_labels or (grouping is not None and not grouping.without)):
        parsed = frozenset(names | set(() if needs_no_labels or grouping is None else grouping.labels))
    labels = None if parsed is None else parsed | _chosen_labels(stages)
    lines = reads_lines or any(
        reads_line(stage) and not (isinstance(stage, _PARSERS) and parsed == frozenset()) for stage in stages
    )
    counts = grouping is not None and not grouping.without and ERROR in grouping.labels
    return Needs(stages, _with_bases(labels), parsed, lines, counts)


def _with_bases(labels: frozenset[str] | None) -> frozenset[str] | None:
    """Adds the names that labels had before they were renamed."""
    if labels is None:
        return None
    return labels | {name.removesuffix(EXTRACTED) for name in labels if name.endswith(EXTRACTED)}


def named_labels(stages: tuple[Stage, ...]) -> set[str] | None:
    """Returns the labels that filters and templates look at; None if one looks at all."""
    names: set[str] = set()
    for stage in stages:
        match stage:
            case LabelFilter(condition):
                names |= condition_labels(condition)
            case LineFormat(template):
                inputs = inputs_of(compiled("line", template))
                if inputs.all_labels:
                    return None
                names |= inputs.labels
            case LabelFormat(items):
                for item in items:
                    if not item.is_template:
                        names.add(item.source)
                        continue
                    inputs = inputs_of(compiled("label", item.source))
                    if inputs.all_labels:
                        return None
                    names |= inputs.labels
    return names


def _chosen_labels(stages: tuple[Stage, ...]) -> set[str]:
    return {chosen.name for stage in stages if isinstance(stage, DropLabels | KeepLabels) for chosen in stage.labels}


def condition_labels(condition: LabelCondition) -> set[str]:
    match condition:
        case BothFilters(left, right) | EitherFilter(left, right):
            return condition_labels(left) | condition_labels(right)
        case TextFilter(matcher):
            return {matcher.name}
        case NumberFilter() | DurationFilter() | BytesFilter() | AddressFilter():
            return {condition.name}
