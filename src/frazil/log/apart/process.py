"""The parent's side of a process that works for it."""

from __future__ import annotations

import logging
import select
import socket
import subprocess
import sys
import threading
from collections.abc import Callable
from typing import TypeVar, TypeVarTuple

from frazil.log.apart import wire
from frazil.log.apart.messages import Done, Failed, Ready, Task

logger = logging.getLogger(__name__)

PATIENCE_SECONDS = 60.0
"""Longer than any work takes: a process that says nothing for so long is ended."""
_LEAVE_SECONDS = 5.0
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

    def run(self, work: Callable[[*Given], T], *given: *Given) -> T:
        """What `work`, a function of a module, makes of what it is given."""
        with self._lock:
            connection = self._connected()
            if connection is not None:
                try:
                    wire.send(connection, Task(work, given))
                    answer: Done | Failed = wire.receive(connection)
                except (EOFError, OSError) as error:
                    self._discard(error)
                else:
                    if isinstance(answer, Done):
                        result: T = answer.result
                        return result
                    logger.info("what failed in another process is done here", extra={"reason": answer.reason})
        return work(*given)

    @property
    def started(self) -> bool:
        return self._process is not None

    @property
    def pid(self) -> int | None:
        """Of the process, once it is ready."""
        process = self._process
        return process.pid if process is not None and self._ready else None

    def start(self) -> None:
        """Have it started, without waiting until it is ready."""
        with self._lock:
            self._connected()

    def _connected(self) -> socket.socket | None:
        """None while there is no process that is ready. It takes a second to start, and nobody waits for that."""
        if self._connection is None:
            if not self._closed:
                self._spawn()
            return None
        if not self._ready and select.select([self._connection], [], [], 0)[0]:
            try:
                self._ready = isinstance(wire.receive(self._connection), Ready)
            except (EOFError, OSError) as error:
                self._discard(error)
        return self._connection if self._ready else None

    def _spawn(self) -> None:
        self._connection, theirs = socket.socketpair()
        with theirs:
            for end in (self._connection, theirs):
                end.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, _BUFFER_BYTES)
            self._process = subprocess.Popen(
                [sys.executable, "-m", "frazil.log.apart.child", str(theirs.fileno())],
                stdin=subprocess.DEVNULL,
                stdout=subprocess.DEVNULL,
                pass_fds=[theirs.fileno()],
                # A Ctrl-C in the terminal is for this process, which then ends its children in order.
                start_new_session=True,
            )
        self._connection.settimeout(PATIENCE_SECONDS)

    def _discard(self, why: Exception) -> None:
        code = self._process.poll() if self._process else None
        logger.warning(
            "a process that worked for this one is gone; its work is done here until there is another",
            extra={"reason": f"{type(why).__name__} {why}".rstrip(), "exit_code": code},
        )
        self._end(0.0)

    def _end(self, patience: float) -> None:
        if self._connection is not None:
            self._connection.close()
        if self._process is not None:
            try:
                self._process.wait(patience)
            except subprocess.TimeoutExpired:
                self._process.kill()
                self._process.wait()
        self._process = self._connection = None
        self._ready = False

    def close(self) -> None:
        with self._lock:
            self._closed = True
            self._end(_LEAVE_SECONDS)
