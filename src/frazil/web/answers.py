"""Builds HTTP answers: rows as JSON or as an Arrow stream, as the client asks, and problems with their reason."""

from __future__ import annotations

from collections.abc import Mapping

import pyarrow as pa
from starlette.requests import Request
from starlette.responses import JSONResponse, Response

from frazil.errors import OffsetGone, QueryError
from frazil.formats.json_rows import rows_to_json
from frazil.web.bodies import BodyIncomplete, BodyStalled
from frazil.web.error_texts import text_for_client
from frazil.web.failures import failure_of

ARROW_STREAM = "application/vnd.apache.arrow.stream"
COMPLETE = "x-frazil-complete"
"""This header is `false` if the answer may lack the newest records, because a tail of the log is elsewhere."""


def rows_answer(request: Request, rows: pa.Table, headers: Mapping[str, str] | None = None) -> Response:
    """Returns all rows as a JSON list of objects, or as an Arrow stream. This takes a while for many rows, so call it
    in a thread then."""
    if wants_arrow(request):
        return _arrow(rows, headers)
    return Response(rows_to_json(rows), headers=headers, media_type="application/json")


def row_answer(request: Request, row: pa.Table, headers: Mapping[str, str] | None = None) -> Response:
    """Returns one row as a JSON object, or as an Arrow stream with one row."""
    if wants_arrow(request):
        return _arrow(row, headers)
    return Response(rows_to_json(row)[1:-1], headers=headers, media_type="application/json")


def refused(error: BaseException, **more: object) -> Response:
    """Returns what an error is as a JSON object, with what its kind adds and whatever else helps."""
    failure = failure_of(error)
    added: dict[str, object] = {}
    headers = failure.headers
    if isinstance(error, QueryError) and error.line:
        added = {"line": error.line, "column": error.column}
    elif isinstance(error, OffsetGone):
        added = {"first_offset": error.first_left}
    elif isinstance(error, BodyStalled | BodyIncomplete):
        headers = {**headers, "connection": "close"}
    return JSONResponse({"error": failure.reason, **added, **more}, failure.http, headers)


def problem(status: int, reason: object, **more: object) -> Response:
    """Returns a problem as a JSON object with `error` and whatever else helps."""
    return JSONResponse({"error": text_for_client(reason), **more}, status)


def wants_arrow(request: Request) -> bool:
    return accepts_arrow(request.headers.get("accept", ""))


def accepts_arrow(accept: str) -> bool:
    """Returns whether the header `Accept` names Arrow streams."""
    return ARROW_STREAM in (each.partition(";")[0].strip().lower() for each in accept.split(","))


def _arrow(rows: pa.Table, headers: Mapping[str, str] | None) -> Response:
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, rows.schema) as stream:
        stream.write_table(rows)
    return Response(sink.getvalue().to_pybytes(), headers=headers, media_type=ARROW_STREAM)
