"""A feed reads one Kafka partition into the log."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator

import pyarrow as pa

from frazil.doors.kafka.cluster import PartitionKey
from frazil.doors.kafka.identity import Proof
from frazil.doors.kafka.opening import Opened
from frazil.doors.kafka.positions import Place, source
from frazil.doors.kafka.records import Run, to_batch
from frazil.errors import BackpressureEngaged, FrazilError
from frazil.failpoints import failpoint
from frazil.log.positions import Origin
from frazil.log.writer.batch_sizes import split_batch
from frazil.log.writer.writer import PartitionWriter, Pending

NOTHING = -1


class Feed:
    """Only the consumer's thread may change it. Other threads may read its numbers."""

    def __init__(self, topic: str, partition: int) -> None:
        self.topic = topic
        self.partition = partition
        self.writer: PartitionWriter | None = None
        """This is None while the partition is not read: it is being opened, or its topic is stopped."""
        self.opening = False
        self.next = NOTHING
        """This offset is read next."""
        self.caught_up = NOTHING
        """The partition ended here when its end was reached last. There may be offsets without a record after the
        newest record."""
        self.stored = NOTHING
        """Everything below this offset is sealed."""
        self.committed = NOTHING
        """This offset was committed to the consumer group last."""
        self.end = NOTHING
        """The partition ended here when the cluster was asked last."""
        self.full = False
        """The log has no room for more of this partition."""
        self.paused = False
        self._proof: Proof | None = None
        self._begun = False
        """This is true once a message has come since the last seek."""
        self._jump: tuple[int, int] | None = None
        """These are the offset that the last seek was for, and the later one that came."""
        self._waiting: deque[tuple[Pending, int]] = deque()

    @property
    def key(self) -> PartitionKey:
        return self.topic, self.partition

    @property
    def lag(self) -> int | None:
        """Return how many offsets are left to read, if that is known."""
        if self.end == NOTHING or self.next == NOTHING:
            return None
        return max(0, self.end - max(self.next, self.caught_up))

    @property
    def unsealed_bytes(self) -> int:
        return self.writer.tail.nbytes if self.writer else 0

    def start(self, opened: Opened) -> None:
        self.writer, self._proof = opened.writer, opened.proof
        self.next = self.stored = opened.place.position
        self.full = self.paused = False
        self._waiting.clear()

    def stop(self) -> PartitionWriter | None:
        """Stop reading, and return the writer, which the caller has to close."""
        writer, self.writer = self.writer, None
        self.full = self.paused = False
        return writer

    @property
    def identity(self) -> str | None:
        return self._proof.identity if self._proof and self.writer else None

    def sought(self) -> None:
        """Note that the client was told to read from `next` on."""
        self._begun = False
        self.caught_up = NOTHING

    def doubts(self, run: Run) -> bool:
        """Tell whether the first message after a seek is another than the one that was asked for.

        Offsets have gaps where Kafka compacted a topic or ended a transaction. But a message that the client left out
        would be lost for good, so a gap right after a seek is believed only when a second seek shows the same gap.
        """
        if self._begun:
            return False
        came = (self.next, run[0].offset() or 0)
        if came[1] > self.next and came != self._jump:
            self._jump = came
            return True
        self._begun = True
        return False

    def append(self, run: Run, most_bytes: int) -> Iterator[pa.RecordBatch]:
        """Append messages, and yield each batch of them that was appended.

        Raises `BackpressureEngaged` when the log has no room for the rest: the partition is `full` then, and the
        messages that are left have to be read again.
        """
        writer, proof = self.writer, self._proof
        assert writer
        assert proof
        if (first := run[0].offset()) is None or first < self.next:
            run = [message for message in run if (message.offset() or 0) >= self.next]
        taken = 0
        batch = to_batch(run) if run else None
        for piece in split_batch(batch, most_bytes) if batch else ():
            if not writer.has_room_for(piece):
                self.full = True
                writer.hurry()
                raise BackpressureEngaged(
                    f"{self.topic}/{self.partition} is paused from offset {self.next} on, until more is sealed."
                )
            taken += piece.num_rows
            after = (run[taken - 1].offset() or 0) + 1
            proof.read = after
            origin = Origin(source(self.topic, self.partition, Place(proof.identity, after)))
            self._waiting.append((writer.submit(piece, origin), after))
            self.next = after
            failpoint("kafka.appended")
            yield piece

    def collect(self) -> FrazilError | None:
        """Note what was sealed since the last call, and return what went wrong, if anything did."""
        while self._waiting and self._waiting[0][0].done():
            pending, after = self._waiting.popleft()
            try:
                pending.result()
            except FrazilError as error:
                self._waiting.clear()
                # The end that was reached before does not count, for some records before it are not stored.
                self.caught_up = NOTHING
                return error
            self.stored = after
        if not self._waiting and self.caught_up > self.stored >= 0:
            self.stored = self.caught_up
        return self.writer.stopped if self.writer else None
