"""Runs a process that answers queries one after the other: `python -m frazil.query.sql.child DESCRIPTOR`.

Queries run apart from the doors, so they cannot take the doors' time. A query that crashes DuckDB, or takes memory
that DuckDB does not count, ends only this process.
"""

from __future__ import annotations

import os
import resource
import sys
import threading
from collections.abc import Iterable
from multiprocessing.connection import Connection
from pathlib import Path

import pyarrow as pa

from frazil.config.model import Config
from frazil.config.sections.section import MIB
from frazil.errors import FrazilError, QueryError
from frazil.formats.json_rows import rows_to_json
from frazil.query.sql.protocol import TOO_MUCH_MEMORY, Answer, Question, Ready, TailsWanted
from frazil.query.sql.session import SqlSession
from frazil.query.sql.tail_transfer import receive_views
from frazil.query.sql.time_limit import still_working
from frazil.scan.log_extents import Tails

_POLL_SECONDS = 0.05
_OVERHEAD_BYTES = 256 * MIB
"""A query may take this much more, for batches in transit and for the text of the answer."""
_STATISTICS = Path("/proc/self/statm")


def main(descriptor: int) -> None:
    parent = Connection(descriptor)
    try:
        config: Config = parent.recv()
        guard = MemoryGuard(config.sql.max_memory_mb * MIB)
        with SqlSession(config, lambda topics: _tails(parent, topics)) as session:
            parent.send(Ready())
            while True:
                question: Question = parent.recv()
                with guard:
                    body = _answer(session, question)
                leaving = still_working()
                parent.send(Answer(body, leaving))
                if leaving:
                    return
    except (EOFError, OSError):
        # The parent is gone, so nobody will ask again.
        return


def _answer(session: SqlSession, question: Question) -> bytes | FrazilError:
    try:
        rows = session.ask(question.text, question.tenant)
        return _stream(rows) if question.arrow else rows_to_json(rows)
    except FrazilError as error:
        return error
    except MemoryError as error:
        return QueryError(f"The result is too large: {error}")
    except Exception as error:  # noqa: BLE001 - the parent must learn of whatever it is
        return FrazilError(f"The query failed: {type(error).__name__}: {error}")


def _stream(rows: pa.Table) -> bytes:
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, rows.schema) as stream:
        stream.write_table(rows)
    return bytes(sink.getvalue())


def _tails(parent: Connection, topics: Iterable[str]) -> Tails:
    parent.send(TailsWanted(tuple(sorted(set(topics)))))
    views = receive_views(parent)
    return lambda topic: views.get(topic, {})


class MemoryGuard:
    """Ends the process when a query takes far more memory than it may, because DuckDB does not count all that it
    takes."""

    def __init__(self, allowed: int) -> None:
        self._allowed = 2 * allowed + _OVERHEAD_BYTES
        self._limit: int | None = None
        threading.Thread(target=self._watch, name="memory", daemon=True).start()

    def __enter__(self) -> None:
        self._limit = memory() + self._allowed

    def __exit__(self, *_: object) -> None:
        self._limit = None

    def _watch(self) -> None:
        pause = threading.Event()
        while not pause.wait(_POLL_SECONDS):
            limit = self._limit
            if limit is not None and memory() > limit:
                os._exit(TOO_MUCH_MEMORY)


def memory() -> int:
    """Returns the bytes of memory that the process has now. Where the system does not say, it returns the peak."""
    try:
        return int(_STATISTICS.read_text().split()[1]) * resource.getpagesize()
    except OSError:
        most = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
        return most if sys.platform == "darwin" else most * 1024


if __name__ == "__main__":
    main(int(sys.argv[1]))
    os._exit(0)
