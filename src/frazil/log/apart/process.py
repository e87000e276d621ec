"""The parent's side of a process that works for it."""

from __future__ import annotations

import logging
import select
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from itertools import count
from typing import TypeVar, TypeVarTuple

from frazil.log.apart import wire
from frazil.log.apart.messages import Done, Failed, Ready, Task

logger = logging.getLogger(__name__)

PATIENCE_SECONDS = 20.0
"""Longer than any work takes: a process that says nothing for so long is ended."""
TURN_SECONDS = 2.0
"""How long work waits for its turn before it is done here."""
PAUSE_SECONDS = 60.0
"""After a process that could not be started."""
_BUFFER_BYTES = 1024 * 1024
"""What may be on its way at once."""

T = TypeVar("T")
Given = TypeVarTuple("Given")


class Apart:
    """One process, started when it is first needed, and again after it ended. Thread-safe, one work at a time.

    Nothing depends on it: what it cannot do, for whatever reason, is done here.
    """

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._process: subprocess.Popen[bytes] | None = None
        self._connection: socket.socket | None = None
        self._ready = False
        self._closed = False
        self._numbers = count()
        self._not_before = 0.0

    def run(self, work: Callable[[*Given], T], *given: *Given) -> T:
        """What `work`, a function of a module, makes of what it is given."""
        if self._lock.acquire(timeout=TURN_SECONDS):
            try:
                done = self._asked(Task(next(self._numbers), work, given))
            finally:
                self._lock.release()
            if done is not None:
                result: T = done.result
                return result
        return work(*given)

    @property
    def started(self) -> bool:
        """Or it is too early to try again."""
        return self._process is not None or time.monotonic() < self._not_before

    @property
    def pid(self) -> int | None:
        """Of the process, once it is ready."""
        process = self._process
        return process.pid if process is not None and self._ready else None

    def start(self) -> None:
        """Have it started, without waiting until it is ready."""
        with self._lock:
            self._connected()

    def close(self) -> None:
        """Whoever waits for it does the work himself."""
        self._closed = True
        if (process := self._process) is not None:
            process.kill()
        with self._lock:
            self._end()

    def _asked(self, task: Task) -> Done | None:
        connection = self._connected()
        if connection is None:
            return None
        try:
            wire.send(connection, task)
            answer: Done | Failed = wire.receive(connection)
            if answer.number != task.number:
                raise ValueError(f"it answers {answer.number}, and not {task.number}")
        except Exception as error:  # noqa: BLE001 - whatever it is, nobody knows what it would say next
            self._discard(error)
            return None
        except BaseException:
            # What it would say next is the answer to this, and not to what it is asked then.
            self._end()
            raise
        if isinstance(answer, Done):
            return answer
        logger.info("what failed in another process is done here", extra={"reason": answer.reason})
        return None

    def _connected(self) -> socket.socket | None:
        """None while there is no process that is ready. It takes a second to start, and nobody waits for that."""
        if self._connection is None:
            if not self._closed and not self.started:
                self._spawn()
            return None
        if not self._ready and _has_come(self._connection):
            try:
                self._ready = isinstance(wire.receive(self._connection), Ready)
            except (EOFError, OSError) as error:
                self._not_before = time.monotonic() + PAUSE_SECONDS
                self._discard(error)
        return self._connection if self._ready else None

    def _spawn(self) -> None:
        try:
            ours, theirs = socket.socketpair()
            with theirs:
                for end in (ours, theirs):
                    end.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, _BUFFER_BYTES)
                self._connection = ours
                self._process = subprocess.Popen(
                    # Nothing from the folder it happens to be in.
                    [sys.executable, "-P", "-m", "frazil.log.apart.child", str(theirs.fileno())],
                    stdin=subprocess.DEVNULL,
                    stdout=subprocess.DEVNULL,
                    pass_fds=[theirs.fileno()],
                    # A Ctrl-C in the terminal is for this process, which then ends its children in order.
                    start_new_session=True,
                )
            ours.settimeout(PATIENCE_SECONDS)
        except OSError as error:
            self._not_before = time.monotonic() + PAUSE_SECONDS
            self._discard(error)

    def _discard(self, why: Exception) -> None:
        code = self._process.poll() if self._process else None
        self._end()
        if not self._closed:
            logger.warning(
                "a process that works for this one is gone; its work is done here until there is another",
                extra={"reason": f"{type(why).__name__} {why}".rstrip(), "exit_code": code},
            )

    def _end(self) -> None:
        if self._connection is not None:
            self._connection.close()
        if self._process is not None:
            # It has nothing that would be lost.
            self._process.kill()
            self._process.wait()
        self._process = self._connection = None
        self._ready = False


def _has_come(connection: socket.socket) -> bool:
    """Whether there is something to read. `select` itself knows no more than 1,024 files."""
    poll = select.poll()
    poll.register(connection, select.POLLIN)
    return bool(poll.poll(0))
