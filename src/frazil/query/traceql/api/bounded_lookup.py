"""Looks traces up by their ids, within bounds: they may be large, and without a time they may be anywhere."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from frazil.config.sections.section import MIB
from frazil.engine.interface import QueryContext
from frazil.formats.otlp.spans import SCHEMA
from frazil.query.traceql.api.replies import RequestRefused
from frazil.query.traceql.engine.scanned_spans import ScannedSpans
from frazil.query.traceql.engine.traces import Traces, assemble


class LookedUp(NamedTuple):
    traces: Traces
    most_bytes: int
    too_large: bool
    """Whether only some of the spans are there, because all of them would be more than `most_bytes`."""
    unsearched: str
    """Says which files were not looked into; empty if spans can be in no other file."""

    def check_whole(self, ending: str = "") -> None:
        """Raises an error if spans may be missing, for answers that cannot say so. Its text has this ending."""
        if self.too_large:
            raise RequestRefused(f"trace exceeds max size (max bytes: {self.most_bytes}){ending}", 422)
        if self.unsearched:
            raise RequestRefused(f"{self.unsearched}{ending}", 422)


def look_up(
    ids: Sequence[bytes], source: ScannedSpans, context: QueryContext, start_ns: int | None, end_ns: int | None
) -> LookedUp:
    limits = context.config.tempo
    most_bytes = limits.max_trace_mb * MIB
    anywhere = start_ns is None and end_ns is None
    most_files = limits.max_trace_files if anywhere else None
    found = source.lookup(ids, start_ns, end_ns, SCHEMA.names, most_bytes=most_bytes, most_files=most_files)
    unsearched = (
        f"Only the newest {most_files} files were searched (tempo.max_trace_files), and {found.files_unread} more "
        "may have spans of it. Ask with start and end to have all files of that time searched."
        if found.files_unread
        else ""
    )
    return LookedUp(assemble(found.table), most_bytes, found.too_large, unsearched)
