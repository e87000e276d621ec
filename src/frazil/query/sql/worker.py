"""Starts and controls one process that answers queries, from the side of the parent."""

from __future__ import annotations

import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterable
from multiprocessing import Pipe
from multiprocessing.connection import Connection

from frazil.config.model import Config
from frazil.errors import FrazilError, QueryTimeout, QueryTooLarge, ShutdownError
from frazil.query.sql.protocol import TOO_MUCH_MEMORY, Answer, Question, TailsWanted
from frazil.query.sql.tail_transfer import Views, send_views

TailsOf = Callable[[Iterable[str]], Views]

_START_SECONDS = 60.0
_GRACE_SECONDS = 2.0
"""A process may take this much longer than its query, so that it can report the timeout itself."""


class Worker:
    """Controls one process, which it starts when it is needed and again after it ended. One thread at a time may use
    it."""

    def __init__(self, config: Config, tails_of: TailsOf) -> None:
        self._config = config
        self._tails_of = tails_of
        self._process: subprocess.Popen[bytes] | None = None
        self._connection: Connection | None = None
        self.used_at = 0.0
        """This is the time of the last answer, by the monotonic clock."""

    @property
    def running(self) -> bool:
        """Returns whether there is a process."""
        return self._process is not None

    def ask(self, question: Question) -> bytes:
        connection = self.start()
        try:
            answer = self._exchange(connection, question)
        except (EOFError, ConnectionError) as error:
            raise self._ended() from error
        except BaseException:
            # The next message of the process would answer this question and not the next one.
            self._discard()
            raise
        if answer.leaving:
            self._discard()
        if isinstance(answer.body, FrazilError):
            raise answer.body
        return answer.body

    def start(self) -> Connection:
        """Starts the process unless it is running, and waits until it is ready."""
        if self._process is not None and self._connection is not None and self._process.poll() is None:
            return self._connection
        self._discard()
        self._connection, theirs = Pipe()
        with theirs:
            self._process = subprocess.Popen(
                [sys.executable, "-P", "-m", "frazil.query.sql.child", str(theirs.fileno())],
                stdin=subprocess.DEVNULL,
                stdout=subprocess.DEVNULL,
                pass_fds=[theirs.fileno()],
                # A Ctrl-C in the terminal goes to the parent, which then ends its children in order.
                start_new_session=True,
            )
        try:
            self._connection.send(self._config)
            if not self._connection.poll(_START_SECONDS):
                self._discard()
                raise FrazilError(f"The process for queries did not start within {_START_SECONDS:.0f} seconds.")
            self._connection.recv()
        except (EOFError, ConnectionError) as error:
            raise self._ended() from error
        return self._connection

    def kill(self) -> None:
        """Ends the process at once; whoever waits for its answer gets an error. Any thread may call this."""
        if (process := self._process) is not None:
            process.kill()

    def close(self) -> None:
        self._discard()

    def _exchange(self, connection: Connection, question: Question) -> Answer:
        connection.send(question)
        limit = self._config.sql.timeout_seconds
        deadline = time.monotonic() + limit + _GRACE_SECONDS
        while True:
            if not connection.poll(max(0.0, deadline - time.monotonic())):
                raise QueryTimeout(f"The query took longer than {limit:g} seconds (sql.timeout_seconds).")
            message: Answer | TailsWanted = connection.recv()
            if isinstance(message, Answer):
                return message
            send_views(connection, self._tails_of(message.topics))

    def _ended(self) -> FrazilError:
        """Returns an error that says why the process ended."""
        assert self._process is not None
        code = self._process.wait()
        self._discard()
        if code == TOO_MUCH_MEMORY:
            return QueryTooLarge(
                f"The query took far more memory than {self._config.sql.max_memory_mb:,} MiB (sql.max_memory_mb)."
            )
        if code == -signal.SIGKILL:
            return ShutdownError("The query was stopped.")
        return FrazilError(f"The process that ran the query ended with code {code}.")

    def _discard(self) -> None:
        if self._process is not None:
            self._process.kill()
            self._process.wait()
        if self._connection is not None:
            self._connection.close()
        self._process = self._connection = None
