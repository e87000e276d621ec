"""Runs the stages of a query over frames."""

from __future__ import annotations

from dataclasses import dataclass

from frazil.query.logql.frame import Frame
from frazil.query.logql.parse.log_tree import (
    Decolorize,
    DropLabels,
    JsonParser,
    KeepLabels,
    LabelFilter,
    LabelFormat,
    LineFilter,
    LineFormat,
    LogfmtParser,
    PatternParser,
    RegexpParser,
    Stage,
    UnpackParser,
)
from frazil.query.logql.stages.findings import Wanted
from frazil.query.logql.stages.formats import decolorize, drop_labels, format_labels, format_line, keep_labels
from frazil.query.logql.stages.json_parser import parse_json
from frazil.query.logql.stages.label_filters import filter_labels
from frazil.query.logql.stages.line_filters import filter_lines
from frazil.query.logql.stages.line_parsers import parse_pattern, parse_regexp, unpack
from frazil.query.logql.stages.logfmt_parser import parse_logfmt
from frazil.query.logql.stages.template_columns import inputs_of
from frazil.query.logql.templates.parser import compiled

_KEEPS_LINES = (JsonParser, LogfmtParser, RegexpParser, PatternParser, DropLabels, KeepLabels, LabelFormat)
"""Filters of lines may come before these stages: they change neither lines nor which rows there are."""


@dataclass(frozen=True)
class Pipeline:
    stages: tuple[Stage, ...]
    wanted: Wanted

    def run(self, frame: Frame) -> None:
        for stage in self.stages:
            if not frame.rows:
                return
            _run(stage, frame, self.wanted)


def _run(stage: Stage, frame: Frame, wanted: Wanted) -> None:
    match stage:
        case LineFilter():
            filter_lines(stage, frame)
        case LabelFilter():
            filter_labels(stage, frame)
        case LineFormat():
            format_line(stage, frame)
        case LabelFormat():
            format_labels(stage, frame)
        case Decolorize():
            decolorize(frame)
        case DropLabels():
            drop_labels(stage, frame)
        case KeepLabels():
            keep_labels(stage, frame)
        case UnpackParser():
            unpack(frame, wanted)
        case _ if wanted.nothing:
            pass
        case JsonParser():
            parse_json(stage, frame, wanted)
        case LogfmtParser():
            parse_logfmt(stage, frame, wanted)
        case RegexpParser():
            parse_regexp(stage, frame, wanted)
        case PatternParser():
            parse_pattern(stage, frame, wanted)


def reordered(stages: tuple[Stage, ...]) -> tuple[Stage, ...]:
    """Moves filters of lines before stages that only cost more with more rows."""
    done: list[Stage] = []
    waiting: list[Stage] = []
    for stage in stages:
        if isinstance(stage, LineFilter):
            done.append(stage)
        elif isinstance(stage, _KEEPS_LINES):
            waiting.append(stage)
        else:
            done += [*waiting, stage]
            waiting = []
    return (*done, *waiting)


def without_unread_lines(stages: tuple[Stage, ...]) -> tuple[Stage, ...]:
    """Leaves out changes of lines after which nobody looks at a line, as Loki does. They cannot fail then."""
    kept: list[Stage] = []
    read = False
    for stage in reversed(stages):
        if read or not isinstance(stage, LineFormat | Decolorize):
            kept.append(stage)
        read = read or reads_line(stage)
    return tuple(reversed(kept))


def reads_line(stage: Stage) -> bool:
    if isinstance(stage, LineFormat):
        return inputs_of(compiled("line", stage.template)).line
    if isinstance(stage, LabelFormat):
        return any(item.is_template and inputs_of(compiled("label", item.source)).line for item in stage.items)
    return isinstance(stage, LineFilter | JsonParser | LogfmtParser | RegexpParser | PatternParser | UnpackParser)


def leading_filters(stages: tuple[Stage, ...]) -> tuple[LineFilter, ...]:
    """Returns the filters at the beginning, which see lines as they are stored."""
    found: list[LineFilter] = []
    for stage in stages:
        if not isinstance(stage, LineFilter):
            break
        found.append(stage)
    return tuple(found)
