"""Builds requests of remote write 2.0 for tests."""

from __future__ import annotations

from typing import Any

from google.protobuf.message import Message

from frazil.formats.remote_write.messages import RequestV2
from frazil.formats.remote_write.v2 import to_rows
from frazil.formats.telemetry.message_decoding import check, decode
from frazil.formats.telemetry.rows import Arrival, TelemetryRows
from tests.formats.telemetry.support import NOW


class Request:
    """A request, and the symbol table that it is built with."""

    def __init__(self) -> None:
        self.message: Any = RequestV2(symbols=[""])
        self._places = {"": 0}

    def ref(self, text: str) -> int:
        if text not in self._places:
            self._places[text] = len(self.message.symbols)
            self.message.symbols.append(text)
        return self._places[text]

    def refs(self, *pairs: tuple[str, str]) -> list[int]:
        return [self.ref(text) for pair in pairs for text in pair]

    def add(self, *samples: tuple[float, int], **labels: str) -> Any:
        """Returns a series with these samples; `name` is the name of the metric."""
        series = self.message.timeseries.add()
        named = (("__name__" if name == "name" else name, value) for name, value in labels.items())
        series.labels_refs.extend(self.refs(*named))
        for value, time in samples:
            series.samples.add(value=value, timestamp=time)
        return series


def second(request: Any) -> Any:
    """Translates a request of 1.0 to one of 2.0."""
    made = Request()
    for series in request.timeseries:
        found = made.message.timeseries.add(
            labels_refs=made.refs(*((label.name, label.value) for label in series.labels))
        )
        for sample in series.samples:
            found.samples.add(value=sample.value, timestamp=sample.timestamp)
        for histogram in series.histograms:
            found.histograms.add().MergeFromString(histogram.SerializeToString())
        for exemplar in series.exemplars:
            refs = made.refs(*((label.name, label.value) for label in exemplar.labels))
            found.exemplars.add(labels_refs=refs, value=exemplar.value, timestamp=exemplar.timestamp)
    return made.message


def rows_of(*requests: Message | bytes, tenants: list[str] | None = None) -> TelemetryRows:
    """Converts requests. By default each has a tenant of its own: `tenant-0`, `tenant-1` and so on."""
    bodies = [each if isinstance(each, bytes) else each.SerializeToString() for each in requests]
    for body in bodies:
        check(RequestV2, body)
    whose = tenants or [f"tenant-{number}" for number in range(len(bodies))]
    rows = to_rows(decode(RequestV2, bodies), Arrival(whose, NOW))
    rows.batch.validate(full=True)
    return rows
