"""Has what results show of traces, made for all of them at once."""

from __future__ import annotations

import numpy as np

from frazil.query.traceql.api.values_json import Json
from frazil.query.traceql.engine.codes import distinct_codes
from frazil.query.traceql.engine.columns import integers, whole_column
from frazil.query.traceql.engine.traces import Traces, trace_texts
from frazil.query.traceql.engine.values import Column
from frazil.query.traceql.parse.tree import Attribute, Field, Intrinsic

NO_ROOT = "<root span not yet received>"
NAME = Intrinsic("name")
SERVICE = Attribute("resource", "service.name")
_ID = Intrinsic("span:id")
_ERROR = 2
_MOST_MS = 2**32 - 1


class ShownTraces:
    def __init__(self, traces: Traces) -> None:
        self.traces = traces
        self._names = trace_texts(traces.ids)
        self._count_services()

    def summary(self, number: int) -> Json:
        traces = self.traces
        start, root = int(traces.trace_starts[number]), int(traces.roots[number])
        took_ms = (int(traces.trace_ends[number]) - start) // 10**6
        found: Json = {"traceID": self._names[number]}
        service = NO_ROOT if root < 0 else self.text(SERVICE, root)
        if service:
            found["rootServiceName"] = service
        if root >= 0 and (name := self.text(NAME, root)):
            found["rootTraceName"] = name
        found["startTimeUnixNano"] = str(start)
        if took_ms:
            found["durationMs"] = min(took_ms, _MOST_MS)
        return found

    def span(self, row: int) -> Json:
        found: Json = {"spanID": self.text(_ID, row), "startTimeUnixNano": str(self.traces.starts[row])}
        if duration := self.traces.durations[row]:
            found["durationNanos"] = str(duration)
        return found

    def text(self, field: Field, row: int) -> str:
        """Returns a field that is a text; it is empty where there is none."""
        column = self.traces.column(field)
        place = row if column.codes is None else int(column.codes[row])
        return "" if place < 0 else column.values.texts[place].as_py() or ""

    def service_stats(self, number: int) -> Json:
        """Returns how many spans each service has in a trace, and how many of them failed."""
        found: Json = {}
        for place in range(self._firsts[number], self._firsts[number + 1]):
            failed = int(self._errors[place])
            counts = {"spanCount": int(self._counts[place])} | ({"errorCount": failed} if failed else {})
            found[self._services[int(self._service_of_place[place])]] = counts
        return found

    def _count_services(self) -> None:
        """Counts spans for each trace and service: places that have any are in the order of traces."""
        traces = self.traces
        column: Column = traces.column(SERVICE)
        assert column.codes is not None, "services are a dictionary"
        self._services = ["", *column.values.texts.to_pylist()]
        width = len(self._services)
        pairs, places = distinct_codes(traces.trace_of_row * width + column.codes + 1)
        failed = integers(whole_column(traces.table, "status_code"), 0) == _ERROR
        self._counts = np.bincount(places, minlength=len(pairs))
        self._errors = np.bincount(places[failed], minlength=len(pairs))
        self._service_of_place = pairs % width
        self._firsts = np.searchsorted(pairs // width, np.arange(traces.trace_count + 1)).tolist()
