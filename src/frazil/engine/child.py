"""Runs a process that answers queries: `python -m frazil.engine.child CONTROL QUERY...`, with descriptors of sockets.

Queries run apart from the doors, so they cannot take the doors' time. A query that crashes native code, or takes
memory that nobody counts, ends only this process. The main thread listens to the serving process; each further socket
has a thread that answers one query at a time.
"""

from __future__ import annotations

import os
import queue
import selectors
import socket
import sys
import threading
import time
from collections.abc import Iterable

from frazil.config.sections.section import MIB
from frazil.engine.answering import Answering, named
from frazil.engine.memory import MemoryBudget, MemoryGuard
from frazil.engine.messages import Ended, Kind, Question, Start, packed, receive, unpacked
from frazil.engine.running_query import Resources, RunningQuery
from frazil.engine.scanner import scanner_bytes
from frazil.engine.tail_follower import follow_tails
from frazil.engine.tail_transfer import Views, ask_for_views
from frazil.footprint import stay_small

_INTERRUPT_AGAIN_SECONDS = 0.5
"""Work that is told to stop may not have begun yet, so it is told again."""
_OVERHEAD_BYTES = 256 * MIB
"""A query may take this much more, for batches in transit and for the text of the answer."""


class SharedTails:
    """Asks the serving process for tails. Any thread may use it."""

    def __init__(self, control: socket.socket) -> None:
        self._control = control
        self._lock = threading.Lock()

    def __call__(self, topics: Iterable[str]) -> Views:
        with self._lock:
            return ask_for_views(self._control, topics)


class Desk:
    """Answers the queries that come through one socket, one after the other, in a thread of its own."""

    def __init__(self, connection: socket.socket, resources: Resources, guard: MemoryGuard) -> None:
        self.connection = connection
        self._resources = resources
        self._guard = guard
        self._questions: queue.SimpleQueue[tuple[Question, RunningQuery]] = queue.SimpleQueue()
        self.query: RunningQuery | None = None
        threading.Thread(target=self._work, name="frazil-query", daemon=True).start()

    def take(self, question: Question) -> None:
        query = RunningQuery(self._resources, question.limits, question.queue_seconds)
        self.query = query
        self._questions.put((question, query))

    def _work(self) -> None:
        while True:
            question, query = self._questions.get()
            self._guard.enter(query, 2 * question.limits.memory_bytes + _OVERHEAD_BYTES)
            try:
                Answering(self.connection, query).answer(question)
            except Ended:
                os._exit(0)
            finally:
                query.end()
                self._guard.leave(query)


def main(control_descriptor: int, descriptors: list[int]) -> None:
    stay_small()
    control = socket.socket(fileno=control_descriptor)
    start: Start = unpacked(receive(control)[1])
    config = start.config
    resources = Resources(
        config, MemoryBudget(config.query.memory_mb * MIB - scanner_bytes(config)), SharedTails(control)
    )
    threading.Thread(target=resources.open_catalog, name="frazil-catalog", daemon=True).start()
    follow_tails(resources.scanner)
    for name in start.warm:
        named(name)(resources)
    guard = MemoryGuard(scanner_bytes(config))
    desks = [Desk(socket.socket(fileno=descriptor), resources, guard) for descriptor in descriptors]
    control.sendall(packed(Kind.READY))
    with selectors.DefaultSelector() as selector:
        for desk in desks:
            selector.register(desk.connection, selectors.EVENT_READ, desk)
        while True:
            for key, _ in selector.select(_patience(desks)):
                _listen(key.data)
            _stop_late(desks)


def _listen(desk: Desk) -> None:
    kind, body = receive(desk.connection)
    if kind is Kind.ASK:
        desk.take(unpacked(body))
    elif kind is Kind.CANCEL and desk.query is not None:
        desk.query.cancel()


def _patience(desks: Iterable[Desk]) -> float | None:
    """Returns how long there is nothing to do, or None if that is for ever."""
    now = time.monotonic()
    due = [desk.query.deadline - now for desk in desks if desk.query is not None and not desk.query.ended]
    if not due:
        return None
    return min(due) if min(due) > 0 else _INTERRUPT_AGAIN_SECONDS


def _stop_late(desks: Iterable[Desk]) -> None:
    now = time.monotonic()
    for desk in desks:
        if desk.query is not None and not desk.query.ended and now >= desk.query.deadline:
            desk.query.interrupt()


if __name__ == "__main__":
    try:
        main(int(sys.argv[1]), [int(each) for each in sys.argv[2:]])
    except (Ended, OSError):
        # The serving process is gone, so nobody will ask again.
        os._exit(0)
