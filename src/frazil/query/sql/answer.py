"""Answers `POST /sql` in a query process."""

from __future__ import annotations

import pyarrow as pa

from frazil.engine.interface import QueryRequest, Reply
from frazil.engine.running_query import Resources, RunningQuery
from frazil.errors import FrazilError
from frazil.formats.json_rows import rows_to_json
from frazil.query.sql.session import SqlSession
from frazil.query.sql.time_limit import took_too_long
from frazil.web.answers import ARROW_STREAM, COMPLETE, accepts_arrow


def answer(request: QueryRequest, query: RunningQuery) -> Reply:
    """The body of the request is the text of the query."""
    session = query.resources.once(SqlSession, _session)
    engine = session.engine()
    query.on_stop(engine.stop)
    try:
        rows = session.run(engine, request.body.decode(), request.tenants[0])
    except FrazilError:
        if query.late:
            raise took_too_long(query.config.sql.timeout_seconds) from None
        raise
    finally:
        session.prepare()
    query.statistics.rows_out = len(rows)
    headers = {} if session.complete else {COMPLETE: "false"}
    if accepts_arrow(request.headers.get("accept", "")):
        return Reply(200, {"content-type": ARROW_STREAM, **headers}, [_stream(rows)])
    return Reply(200, {"content-type": "application/json", **headers}, [rows_to_json(rows)])


def warm(resources: Resources) -> None:
    """Prepares a process for its first query."""
    resources.once(SqlSession, _session).warm()


def _session(resources: Resources) -> SqlSession:
    return SqlSession(resources.config, resources.scanner)


def _stream(rows: pa.Table) -> bytes:
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, rows.schema) as stream:
        stream.write_table(rows)
    return bytes(sink.getvalue())
