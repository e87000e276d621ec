"""Group commit: appends that come while another is being written are written together, as one frame.

Whoever finds nobody writing becomes the leader; the others wait for their group.
"""

from __future__ import annotations

import asyncio
import threading
from collections import deque
from collections.abc import Iterable
from typing import Literal, NamedTuple

import pyarrow as pa

from frazil.errors import FrazilError
from frazil.log.positions import Origin
from frazil.log.schema.schema import SchemaVersion
from frazil.log.signal import resolve


class Ack(NamedTuple):
    """The acknowledgement of an append, which is stored as durably as `durability` says."""

    offset: int
    rows: int
    epoch: str
    durability: Literal["local", "object"]
    duplicate: bool = False
    """The append had been stored before, at this offset, and was not stored again."""


class BatchAppend(NamedTuple):
    """One append of a batch that holds the rows of several appends."""

    rows: int
    origin: Origin | None = None


class Group:
    """Appends of one schema that are written as one frame, and succeed or fail together."""

    def __init__(self, schema: SchemaVersion, form: str, generation: int) -> None:
        self.schema = schema
        """The schema of the rows."""
        self.form = form
        """The form of raw appends; empty for rows."""
        self.generation = generation
        """The partition had been fenced this often when the group began. A group from before a fence is dropped."""
        self.batches: list[pa.RecordBatch] = []
        """All rows, in their order. One batch may hold several appends. Empty for raw appends."""
        self.appends: list[bytes] = []
        """The raw appends, if the group has a form."""
        self.rows: list[int] = []
        """The number of rows of each append."""
        self.origins: dict[int, Origin] = {}
        """The origins of the appends that have one, by the index of the append."""
        self.nbytes = 0
        """The size of the rows, estimated for raw appends."""
        self.done = False
        self.acked_at = 0
        """The offset up to which records must be durable before the group is acknowledged."""
        self.outcomes: list[Ack | FrazilError] = []
        self._event: threading.Event | None = None
        self._futures: list[asyncio.Future[None]] = []

    def event(self) -> threading.Event:
        if self._event is None:
            self._event = threading.Event()
        return self._event

    def future(self) -> asyncio.Future[None]:
        """Return a future for one append: who is cancelled cancels only its own."""
        future: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._futures.append(future)
        return future

    def finish(self) -> None:
        self.done = True
        if self._event:
            self._event.set()
        resolve(self._futures)

    def fail(self, error: FrazilError) -> None:
        self.outcomes = [error] * len(self.rows)
        self.finish()

    def outcome(self, index: int) -> Ack:
        outcome = self.outcomes[index]
        if isinstance(outcome, FrazilError):
            raise outcome.again()
        return outcome


class GroupQueue:
    """Groups that wait to be written. Every method but `next` is called under `lock`."""

    def __init__(self, max_group_bytes: int) -> None:
        self.lock = threading.Lock()
        self.nbytes = 0
        self.generation = 0
        self.busy = False
        """Somebody is the leader: they write groups, and look for more before they stop."""
        self._max_group_bytes = max_group_bytes
        self._groups: deque[Group] = deque()
        self._joinable: Group | None = None

    def add(
        self,
        schema: SchemaVersion,
        content: pa.RecordBatch | list[bytes],
        parts: Iterable[BatchAppend],
        nbytes: int,
        form: str = "",
    ) -> tuple[Group, int]:
        """Add appends to a group. Return the group and the index of the first of them in it."""
        group = self._joinable
        if (
            group is None
            or group.schema is not schema
            or group.form != form
            or group.generation != self.generation
            or group.nbytes + nbytes > self._max_group_bytes
        ):
            group = self._joinable = Group(schema, form, self.generation)
            self._groups.append(group)
        first = len(group.rows)
        if isinstance(content, list):
            group.appends += content
        else:
            group.batches.append(content)
        for rows, origin in parts:
            if origin is not None:
                group.origins[len(group.rows)] = origin
            group.rows.append(rows)
        group.nbytes += nbytes
        self.nbytes += nbytes
        return group, first

    def lead(self) -> bool:
        """Return True when the caller is now the leader, who writes the groups."""
        if self.busy:
            return False
        self.busy = True
        return True

    def next(self) -> Group | None:
        """Return the next group to the leader, who stops being the leader when there is none."""
        with self.lock:
            if not self._groups:
                self.busy = False
                return None
            group = self._groups.popleft()
            if group is self._joinable:
                self._joinable = None
            self.nbytes -= group.nbytes
            return group
