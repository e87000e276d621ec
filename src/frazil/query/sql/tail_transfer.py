"""Sends tails through a pipe to a process that answers a query.

The bytes of records go from the writer's memory into the pipe as they are. Pickling them would copy them for every
query, and would block all other Python code of the doors meanwhile.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from multiprocessing.connection import Connection

import pyarrow as pa

from frazil.log.raw.rows import with_rows
from frazil.log.tail import TailView
from frazil.log.wal.entries import Entry

Views = Mapping[str, Mapping[int, TailView]]
"""These are tails that are in memory only, by topic and partition."""

_NOTHING = pa.py_buffer(b"")


def send_views(connection: Connection, views: Views) -> None:
    connection.send(_with_payloads(views, lambda _: _NOTHING))
    for entry in _entries(views):
        connection.send_bytes(memoryview(entry.payload))


def receive_views(connection: Connection) -> Views:
    """Receives what `send_views` sent, as rows."""
    views = _with_payloads(connection.recv(), lambda _: pa.py_buffer(connection.recv_bytes()))
    return {
        topic: {partition: view._replace(entries=with_rows(view.entries)) for partition, view in tails.items()}
        for topic, tails in views.items()
    }


def _entries(views: Views) -> Iterator[Entry]:
    return (entry for tails in views.values() for view in tails.values() for entry in view.entries)


def _with_payloads(views: Views, payload: Callable[[Entry], pa.Buffer]) -> Views:
    return {
        topic: {
            partition: view._replace(
                entries=[entry._replace(payload=payload(entry), decoded=None) for entry in view.entries]
            )
            for partition, view in tails.items()
        }
        for topic, tails in views.items()
    }
