"""Makes new lines and labels: templates, renamed and removed labels, lines without colours."""

from __future__ import annotations

import pyarrow as pa
import pyarrow.compute as pc

from frazil.query.logql.columns import Mask
from frazil.query.logql.frame import Frame
from frazil.query.logql.parse.log_tree import ChosenLabel, DropLabels, KeepLabels, LabelFormat, LineFormat
from frazil.query.logql.stages.label_filters import matching
from frazil.query.logql.stages.template_columns import rendered
from frazil.query.logql.templates.parser import compiled

TEMPLATE_ERROR = "TemplateFormatErr"

_COLOURS = (
    r"[\x1b\x{9b}][\[\]()#;?]*"
    r"(?:(?:(?:(?:;[-a-zA-Z\d/#&.:=?%@~_]+)*|[a-zA-Z\d]+(?:;[-a-zA-Z\d/#&.:=?%@~_]*)*)?\x07)"
    r"|(?:(?:\d{1,4}(?:;\d{0,4})*)?[\dA-PRZcf-ntqry=><~]))"
)
"""Escape sequences of terminals: CSI and OSC."""


def decolorize(frame: Frame) -> None:
    lines = frame.lines
    if pc.any(pc.match_substring_regex(lines, r"[\x1b\x{9b}]")).as_py():
        frame.lines = pc.replace_substring_regex(lines, _COLOURS, "")


def format_line(stage: LineFormat, frame: Frame) -> None:
    made = rendered(compiled("line", stage.template), frame)
    if made.faults is not None:
        frame.fail(made.faults.present, TEMPLATE_ERROR, made.faults)
        texts = made.texts.filled()
        failed = pa.array(made.faults.present)
        frame.lines = pc.if_else(failed, frame.lines, texts)
    else:
        frame.lines = made.texts.filled()


def format_labels(stage: LabelFormat, frame: Frame) -> None:
    """Templates see the labels as they were before the stage; a rename sees what was made before it."""
    templates = {
        item.label: rendered(compiled("label", item.source), frame) for item in stage.items if item.is_template
    }
    for item in stage.items:
        if not item.is_template:
            _rename(frame, item.label, item.source)
            continue
        made = templates[item.label]
        texts = made.texts
        if made.faults is not None:
            frame.fail(made.faults.present, TEMPLATE_ERROR, made.faults)
            texts = texts.only(~made.faults.present)
        frame.put("parsed", item.label, texts.over(frame.column("parsed", item.label)))


def _rename(frame: Frame, label: str, source: str) -> None:
    column = frame.label(source)
    if column.present.any():
        frame.hide(source, column.present)
        frame.put("parsed", label, column.over(frame.column("parsed", label)))


def drop_labels(stage: DropLabels, frame: Frame) -> None:
    for chosen in stage.labels:
        frame.hide(chosen.name, _fitting(chosen, frame))


def keep_labels(stage: KeepLabels, frame: Frame) -> None:
    conditions = [(chosen, _fitting(chosen, frame)) for chosen in stage.labels]
    frame.hide_all_but([chosen.name for chosen in stage.labels])
    unconditional = {chosen.name for chosen, mask in conditions if mask is None}
    for chosen, mask in conditions:
        if mask is not None and chosen.name not in unconditional:
            frame.hide(chosen.name, ~mask)


def _fitting(chosen: ChosenLabel, frame: Frame) -> Mask | None:
    return None if chosen.matcher is None else matching(chosen.matcher, frame.label(chosen.name))
