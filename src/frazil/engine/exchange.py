"""Has one query answered at a desk of a query process, and passes on what comes."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping

from frazil.engine.interface import QueryStatistics
from frazil.engine.memory import TOO_MUCH_MEMORY
from frazil.engine.messages import Beginning, Ended, Failure, Kind, Question, packed, unpacked
from frazil.engine.query_process import Desk, QueryProcess
from frazil.engine.running_query import timed_out
from frazil.errors import QueryProcessDied, QueryTooLarge, RequestCancelled, ShutdownError

GRACE_SECONDS = 2.0
"""A process may take this much longer than its query, so that it can report the timeout itself, and as long to stop
when nobody wants the answer any more."""


class LostToNeighbour(Exception):
    """Raised when a process ended while it answered several queries, and another may be the reason."""


class Exchange:
    """Is a reply that is received piece by piece: `async for piece in exchange`.

    Whoever has it calls `aclose` in the end. Nothing is received before it is asked for, so a client that reads
    slowly holds its query back.
    """

    status: int
    headers: Mapping[str, str]

    def __init__(self, desk: Desk, question: Question, on_end: Callable[[Exchange], None]) -> None:
        self.question = question
        self.statistics = QueryStatistics(queue_seconds=question.queue_seconds)
        """What the query cost, as far as that is known."""
        self.failure: BaseException | None = None
        self.shared = False
        """Whether the process answered another query at the same time."""
        self.stopping = False
        """Whether the process is ended because Frazil stops."""
        self._desk = desk
        self._on_end = on_end
        self.begun = False
        """Whether status and headers have come."""
        self._ended = self._receiving = self._overdue = False
        self._draining: asyncio.Task[None] | None = None
        loop = asyncio.get_running_loop()
        self._timer = loop.call_later(question.limits.timeout_seconds.value + GRACE_SECONDS, self._time_over)

    @property
    def process(self) -> QueryProcess:
        return self._desk.process

    async def begin(self) -> None:
        """Asks the question, and waits for status and headers."""
        self._desk.writer.write(packed(Kind.ASK, self.question))
        _, body = await self._receive()
        beginning: Beginning = unpacked(body)
        self.status, self.headers = beginning
        self.begun = True

    def __aiter__(self) -> Exchange:
        return self

    async def __anext__(self) -> bytes:
        if self._draining is not None or self._ended:
            if self.failure is not None:
                raise self.failure
            raise StopAsyncIteration
        kind, body = await self._receive()
        if kind is Kind.PIECE:
            return body
        self.statistics = unpacked(body)
        self._end()
        raise StopAsyncIteration

    async def aclose(self) -> None:
        """Stops the query, if it still runs. Its desk is free again when it has stopped, or its process has ended."""
        self.abandon()

    def abandon(self) -> None:
        if self._ended or self._draining is not None:
            return
        if self.failure is None:
            self.failure = RequestCancelled("The client has gone.")
        self._timer.cancel()
        self._desk.writer.write(packed(Kind.CANCEL))
        self._draining = asyncio.create_task(self._drain())

    async def _receive(self) -> tuple[Kind, bytes]:
        """Receives a message of the answer. Raises what the query failed with."""
        self._receiving = True
        try:
            kind, body = await self._desk.reader.receive()
        except Ended:
            await self._desk.process.wait_gone()
            self._end(self._reason())
            assert self.failure is not None
            raise self.failure from None
        finally:
            self._receiving = False
        if kind is not Kind.FAILED:
            return kind, body
        failure: Failure = unpacked(body)
        self.statistics = failure.statistics
        self._end(failure.error)
        raise failure.error

    async def _drain(self) -> None:
        """Receives the rest for nobody, so that the process can go on with the next query."""
        try:
            async with asyncio.timeout(GRACE_SECONDS):
                while True:
                    kind, body = await self._desk.reader.receive()
                    if kind in (Kind.END, Kind.FAILED):
                        found = unpacked(body)
                        self.statistics = found.statistics if isinstance(found, Failure) else found
                        break
        except TimeoutError:
            self._desk.process.kill()
            await self._desk.process.wait_gone()
        except Ended:
            await self._desk.process.wait_gone()
        finally:
            self._end(self.failure)

    def _time_over(self) -> None:
        if self.begun and not self._receiving:
            # The process may have ended the answer in time, but the client takes too long to read it.
            self.failure = timed_out(self.question.limits)
            self.abandon()
            return
        self._overdue = True
        self._desk.process.kill()

    def _reason(self) -> BaseException:
        """Says why the process ended."""
        limits, code = self.question.limits, self._desk.process.exit_code
        if self._overdue:
            return timed_out(limits)
        if self.stopping:
            return ShutdownError("The query was stopped, because Frazil stops.")
        if self.shared and not self.begun:
            return LostToNeighbour()
        if code == TOO_MUCH_MEMORY:
            limit = limits.max_memory_mb
            return QueryTooLarge(f"The query took far more memory than {limit.value:,.0f} MiB ({limit.setting}).")
        return QueryProcessDied(f"The process that answered the query ended with code {code}.")

    def _end(self, failure: BaseException | None = None) -> None:
        if not self._ended:
            self._ended = True
            self._timer.cancel()
            self.failure = failure
            self._on_end(self)
