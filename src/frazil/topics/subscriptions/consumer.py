"""Implements the consumer's side of a subscription."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Mapping
from typing import Protocol

from frazil.errors import ConsumerGone, FrazilError
from frazil.topics.subscriptions.delivery import Delivered


class Host(Protocol):
    """Defines what a consumer asks of its subscription."""

    @property
    def problems(self) -> Mapping[int, FrazilError]: ...

    def request(self, consumer: Consumer, rows: int) -> None: ...

    def leave(self, consumer: Consumer) -> None: ...

    async def ack(self, ranges: Iterable[tuple[int, int, int]]) -> None: ...

    async def ack_until(self, partition: int, end: int) -> None: ...

    async def nack(
        self,
        partition: int,
        start: int,
        end: int,
        *,
        delay: float = 0.0,
        reason: str = "",
        consumer: Consumer | None = None,
    ) -> None: ...


class Consumer:
    """Allows one `receive` at a time. Everything else may be called at any time."""

    def __init__(self, host: Host, number: int, name: str) -> None:
        self.number = number
        self.name = name
        self._host = host
        self._inbox: list[Delivered] = []
        self._waiter: asyncio.Future[None] | None = None
        self._over: FrazilError | None = None
        self._raised: dict[int, FrazilError] = {}

    async def receive(self, most: int, timeout: float | None = None) -> list[Delivered]:
        """Returns the next messages as soon as there are some, or none after the timeout.

        When a partition cannot be read on (`OffsetGone`), this raises the error once at once, and then whenever the
        other partitions have nothing.
        """
        self._check()
        if not self._inbox:
            self._raise_news()
            self._host.request(self, most)
            try:
                if not self._inbox:
                    self._raise_problem()
                    await self._wait(timeout)
            finally:
                if self._over is None:
                    self._host.request(self, 0)
        if not self._inbox:
            self._check()
            self._raise_problem()
        runs, self._inbox = self._inbox, []
        return runs

    def give_back(self, runs: Iterable[Delivered]) -> None:
        """Makes the next `receive` return these messages first."""
        if self._over is None:
            self._inbox[:0] = runs

    async def ack(self, partition: int, start: int, end: int | None = None) -> None:
        """Acknowledges the message at `start`, or those from `start` up to `end`. Returns when that is stored."""
        self._check()
        await self._host.ack([(partition, start, start + 1 if end is None else end)])

    async def ack_all(self, runs: Iterable[Delivered]) -> None:
        """Acknowledges messages as they were received."""
        self._check()
        await self._host.ack(_joined(runs))

    async def ack_until(self, partition: int, end: int) -> None:
        """Acknowledges all messages of a partition below `end`."""
        self._check()
        await self._host.ack_until(partition, end)

    async def nack(
        self, partition: int, start: int, end: int | None = None, *, delay: float = 0.0, reason: str = ""
    ) -> None:
        """Has messages delivered again, at the earliest after `delay` seconds."""
        self._check()
        stop = start + 1 if end is None else end
        await self._host.nack(partition, start, stop, delay=delay, reason=reason, consumer=self)

    def close(self) -> None:
        """Leaves the subscription. Unacknowledged messages go to others."""
        self._host.leave(self)

    # --- for the subscription ----------------------------------------------------------------------------

    def give(self, run: Delivered) -> None:
        self._inbox.append(run)
        self.wake()

    def end(self, why: str) -> None:
        self.fail(ConsumerGone(why))

    def fail(self, error: FrazilError) -> None:
        """Ends the consumer. Messages that it has not fetched go to others."""
        self._over = error
        self._inbox = []
        self.wake()

    def wake(self) -> None:
        if self._waiter is not None and not self._waiter.done():
            self._waiter.set_result(None)

    async def _wait(self, timeout: float | None) -> None:
        self._waiter = asyncio.get_running_loop().create_future()
        try:
            await asyncio.wait([self._waiter], timeout=timeout)
        finally:
            self._waiter = None

    def _check(self) -> None:
        if self._over is not None:
            raise self._over.again()

    def _raise_news(self) -> None:
        """Raises a problem that this consumer was not told yet."""
        for partition, problem in self._host.problems.items():
            if self._raised.get(partition) is not problem:
                self._raised[partition] = problem
                raise problem.again()

    def _raise_problem(self) -> None:
        for partition, problem in self._host.problems.items():
            self._raised[partition] = problem
            raise problem.again()


def _joined(runs: Iterable[Delivered]) -> list[tuple[int, int, int]]:
    """Returns partition, start and end of each range, and joins neighbours."""
    joined: list[tuple[int, int, int]] = []
    for partition, start, end in sorted((run.partition, run.first, run.end) for run in runs):
        if joined and joined[-1][0] == partition and joined[-1][2] == start:
            joined[-1] = (partition, joined[-1][1], end)
        else:
            joined.append((partition, start, end))
    return joined
