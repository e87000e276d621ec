"""Sends tails that are in the memory of the serving process to a query process.

The bytes of records go from the writer's memory into the socket as they are. Pickling them would copy them for every
query, and would block all other Python code of the doors meanwhile.
"""

from __future__ import annotations

import asyncio
import pickle
import socket
from asyncio import StreamWriter
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import NamedTuple

import pyarrow as pa

from frazil.engine.messages import PIECE_BYTES, Ended, Kind, header, packed, receive, unpacked
from frazil.log.raw.rows import with_rows
from frazil.log.tail import TailView
from frazil.log.wal.entries import Entry

Views = Mapping[str, Mapping[int, TailView]]
"""These are tails that are in memory only, by topic and partition."""
TailsOf = Callable[[Iterable[str]], Views]

_NOTHING = pa.py_buffer(b"")


class PackedViews(NamedTuple):
    head: bytes
    payloads: list[memoryview]


def pack_views(views: Views) -> PackedViews:
    """Separates records from what describes them."""
    head = pickle.dumps(_with_payloads(views, lambda _: _NOTHING), pickle.HIGHEST_PROTOCOL)
    return PackedViews(head, [memoryview(entry.payload) for entry in _entries(views)])


async def send_views(writer: StreamWriter, views: PackedViews) -> None:
    """Sends a piece at a time, so that the event loop has time for others."""
    writer.write(header(Kind.TAILS, len(views.head)) + views.head)
    for payload in views.payloads:
        writer.write(header(Kind.PIECE, len(payload)))
        for at in range(0, len(payload), PIECE_BYTES):
            writer.write(payload[at : at + PIECE_BYTES])
            await writer.drain()
            await asyncio.sleep(0)
    await writer.drain()


def ask_for_views(connection: socket.socket, topics: Iterable[str]) -> Views:
    """Asks the serving process for the tails of these topics, and waits for them."""
    try:
        connection.sendall(packed(Kind.TAILS_WANTED, tuple(sorted(set(topics)))))
    except OSError as error:
        raise Ended from error
    return receive_views(connection)


def receive_views(connection: socket.socket) -> Views:
    """Receives what `send_views` sent, as rows."""
    _, head = receive(connection)
    views = _with_payloads(unpacked(head), lambda _: pa.py_buffer(receive(connection)[1]))
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
