"""Requests of one kind as rows, many at a time, in a thread.

They are decoded together, so that small ones cost little, and yet each has its own fate: what is wrong with one is no
other's business, and each is recognised when it comes again.
"""

from __future__ import annotations

import hashlib
import logging
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from itertools import pairwise
from typing import NamedTuple

import numpy as np
import pyarrow as pa

from frazil.clock import Clock
from frazil.config.sections.section import MIB
from frazil.config.sections.telemetry import TelemetryConfig
from frazil.doors.telemetry.amplification import check_json, check_messages
from frazil.doors.telemetry.decompression import decompress
from frazil.doors.telemetry.metrics import TelemetryMetrics
from frazil.doors.telemetry.request_kind import RequestKind
from frazil.doors.telemetry.tenant_limits import TenantLimits
from frazil.errors import FrazilError, RequestError, TooMuch
from frazil.formats.otlp.plain_requests import RecordLimits, RowEstimate
from frazil.formats.telemetry.message_decoding import check, decode
from frazil.formats.telemetry.rows import Arrival, Rejected
from frazil.log.forms import Raw, Together, make_rows
from frazil.log.positions import Origin
from frazil.log.writer.batch_sizes import size_of
from frazil.log.writer.group import Part
from frazil.native import NativeFault, faults_as_errors
from frazil.ops.throttle import Throttle

logger = logging.getLogger(__name__)

GROUP_BYTES = 5 * MIB // 4
"""Decoded at a time, once they are without compression. Of more, nothing would be on its way to the disk, or back to
the clients, while they are made rows."""
APPEND_BYTES = 8 * MIB
"""Stored at a time, as rows."""
HASH_BYTES = 16
HASH_CHUNK_BYTES, LONGEST_HASHED_IN_CHUNKS = 2047, 16 * 1024
"""To hash more than that at once Python's lock is given up, and to get it back may take longer than to hash up to so
many bytes piece by piece."""
LONGEST_CHECKED_AT_ONCE = 64 * 1024
"""Bytes of a request that the event loop itself looks at: about a millisecond for data points."""
LOG_SECONDS = 1.0
"""So often at most the server's log tells of a request that was refused."""
LONGEST_HASHED_AT_ONCE = MIB
"""Half a millisecond, in which others run Python."""


class TelemetryRequest(NamedTuple):
    tenant: str
    body: bytes
    encoding: str = ""
    json: bool = False
    hash: bytes = b""
    """Of its tenant and its message, once it is known."""

    @property
    def is_bare(self) -> bool:
        """Whether its body is the message itself."""
        return not self.encoding and not self.json


class PlainRequest(NamedTuple):
    """A request of which rows can be made later."""

    tenant: str
    body: bytes
    """As a message."""
    estimate: RowEstimate
    digest: bytes | None


class RequestRows(NamedTuple):
    """The rows of a request, by whose hash each run of them is recognised when it comes again."""

    number: int
    """Of the request, by its place among those that were given."""
    rows: int
    digest: bytes | None

    def part(self, first: int, rows: int) -> Part:
        """A run of its rows. Only where it begins is part of the name: the next time it may be cut elsewhere."""
        origin = Origin(request=self.digest + first.to_bytes(4)) if self.digest else None
        return Part(rows, origin)


class AppendBatch(NamedTuple):
    """Rows that are stored together: of several requests, or of one that is too large for one append. Or requests
    of which rows are made later."""

    content: pa.RecordBatch | Raw
    requests: list[RequestRows]
    nbytes: int
    """As rows."""

    @property
    def row_bytes(self) -> int:
        """On the average."""
        return self.nbytes // sum(request.rows for request in self.requests)


@dataclass
class Converted:
    """What became of requests, by their place among those that were given."""

    taken: int = 0
    """So many of the first were looked at; the others would have been too much."""
    problems: dict[int, FrazilError] = field(default_factory=dict)
    rejected: dict[int, Rejected] = field(default_factory=dict)
    tallies: dict[int, object] = field(default_factory=dict)
    """What is told of the rows of each (`RequestKind.tally`)."""
    appends: list[AppendBatch] = field(default_factory=list)


class _RequestRange(NamedTuple):
    """Where the rows of a request are."""

    number: int
    start: int
    end: int
    request: TelemetryRequest
    body: bytes
    """As a message."""
    timeless: bool


class RequestConverter:
    """Thread-safe."""

    def __init__(
        self,
        kind: RequestKind,
        config: TelemetryConfig,
        limits: TenantLimits,
        metrics: TelemetryMetrics,
        clock: Clock,
        most_append: int,
    ) -> None:
        """`most_append` is the largest append, in bytes."""
        self._kind = kind
        self._config = config
        self._limits = limits
        self._metrics = metrics
        self._clock = clock
        self._most = config.max_body_mb * MIB
        self._most_append = most_append
        self._log_throttle = Throttle(LOG_SECONDS, clock.monotonic)
        self._record_limits = lru_cache(maxsize=1024)(self._record_limits_of)

    def plain_request(self, request: TelemetryRequest) -> PlainRequest | None:
        """At a request that has just come, for microseconds: None if that would take longer, or if it has to be made
        rows before it is stored."""
        if self._kind.storage_form is None or not request.is_bare or len(request.body) > LONGEST_CHECKED_AT_ONCE:
            return None
        try:
            plain = self._plain(request, request.body)
        except RequestError:
            return None
        if plain is not None:
            self._limits.spend(request.tenant, len(request.body))
        return plain

    def _plain(self, request: TelemetryRequest, body: bytes) -> PlainRequest | None:
        """The request with this message, if it can be stored as it came. Raises `RequestError` for what is no
        message, which the decoder must not see."""
        message = check(self._kind.message, body)
        form = self._kind.storage_form
        estimate = form.estimate(message, body, self._record_limits(request.tenant)) if form else None
        if estimate is None:
            return None
        return PlainRequest(request.tenant, body, estimate, self._digest(request, body, timed=True))

    def with_hash(self, request: TelemetryRequest) -> TelemetryRequest:
        """With its hash, if that takes no longer than the event loop has."""
        if self._config.deduplicate == "never" or not request.is_bare or len(request.body) > LONGEST_HASHED_AT_ONCE:
            return request
        return request._replace(hash=self._hash(request.tenant, request.body))

    def plain_appends(self, plain: Mapping[int, PlainRequest]) -> list[AppendBatch]:
        """Requests, by their place among those that were given, to be stored: as many at a time as one append may
        have."""
        most = min(APPEND_BYTES, self._most_append)
        appends: list[AppendBatch] = []
        together: dict[int, PlainRequest] = {}
        nbytes = 0
        for number, each in plain.items():
            if together and nbytes + each.estimate.nbytes > most:
                appends.append(self._plain_append(together))
                together, nbytes = {}, 0
            together[number] = each
            nbytes += each.estimate.nbytes
        if together:
            appends.append(self._plain_append(together))
        return appends

    def _plain_append(self, plain: Mapping[int, PlainRequest]) -> AppendBatch:
        assert self._kind.storage_form is not None
        tenants, bodies, estimates, digests = zip(*plain.values(), strict=True)
        raw = self._kind.storage_form.raw(tenants, bodies, estimates)
        requests = [
            RequestRows(number, estimate.rows, digest)
            for number, estimate, digest in zip(plain, estimates, digests, strict=True)
        ]
        return AppendBatch(raw, requests, raw.nbytes)

    def rows_of(self, raw: Raw) -> pa.RecordBatch:
        """Of requests that are stored later."""
        return make_rows(raw.form, [Together(raw.appends, raw.rows, self._clock.now_ms())], raw.schema)

    def _record_limits_of(self, tenant: str) -> RecordLimits:
        limits = self._config.limits_of(tenant)
        most = min(limits.max_record_kb * 1024, self._most_append)
        return RecordLimits(most, limits.max_attributes, self._most_append)

    def convert(self, requests: Sequence[TelemetryRequest]) -> Converted:
        done = Converted()
        bodies: dict[int, bytes] = {}
        plain: dict[int, PlainRequest] = {}
        size = 0
        while done.taken < len(requests) and size < GROUP_BYTES:
            number = done.taken
            done.taken += 1
            try:
                body = self._read(requests[number])
                size += len(body)
                found = self._plain(requests[number], body)
                if found is None:
                    bodies[number] = body
                else:
                    plain[number] = found
            except Exception as error:  # noqa: BLE001 - it is this request's, and no other's
                done.problems[number] = self._refused(requests[number], error)
        self._convert_all(requests, bodies, done)
        done.appends += self.plain_appends(plain)
        return done

    def _read(self, request: TelemetryRequest) -> bytes:
        body = decompress(request.body, request.encoding, self._most)
        self._limits.spend(request.tenant, len(body))
        if request.json:
            check_json(body)
            return self._kind.from_json(body)
        check_messages(self._kind.message, body)
        return body

    def _convert_all(self, requests: Sequence[TelemetryRequest], bodies: dict[int, bytes], done: Converted) -> None:
        """Together. If that fails, each half for itself, so that in the end only those fail that cannot be rows."""
        waiting = [list(bodies)] if bodies else []
        while waiting:
            numbers = waiting.pop()
            try:
                with faults_as_errors():
                    self._convert(requests, {number: bodies[number] for number in numbers}, done)
            except Exception as error:  # noqa: BLE001 - it is found out whose it is
                if len(numbers) == 1:
                    done.problems[numbers[0]] = self._refused(requests[numbers[0]], error)
                    continue
                half = len(numbers) // 2
                waiting += [numbers[half:], numbers[:half]]

    def _convert(self, requests: Sequence[TelemetryRequest], bodies: dict[int, bytes], done: Converted) -> None:
        numbers = list(bodies)
        tenants = [requests[number].tenant for number in numbers]
        arrival = Arrival(tenants, self._clock.now_ms() * 10**6)
        rows = self._kind.to_rows(self._decoded(list(bodies.values())), arrival)
        self._metrics.invalid_ids.labels(self._kind.topic).inc(rows.invalid_ids)
        rows = self._limits.without_excess(rows, tenants, self._most_append)
        if self._kind.tally:
            done.tallies |= dict(zip(numbers, self._kind.tally(rows, len(numbers)), strict=True))
        ends = np.searchsorted(rows.requests, np.arange(len(numbers) + 1)).tolist()
        ranges = [
            _RequestRange(numbers[at], start, end, requests[numbers[at]], bodies[numbers[at]], at in rows.timeless)
            for at, (start, end) in enumerate(pairwise(ends))
            if start < end
        ]
        done.appends += self._appends(rows.batch, ranges)
        done.rejected |= {numbers[at]: rejected for at, rejected in rows.rejected.items()}

    def _decoded(self, bodies: list[bytes]) -> pa.RecordBatch:
        try:
            return decode(self._kind.message, bodies)
        except ValueError as error:
            raise RequestError(f"The body is no {self._kind.message.DESCRIPTOR.name} that can be decoded.") from error

    def _appends(self, rows: pa.RecordBatch, ranges: Sequence[_RequestRange]) -> list[AppendBatch]:
        """The rows of requests that follow each other."""
        if not ranges:
            return []
        batch = rows.slice(ranges[0].start, ranges[-1].end - ranges[0].start)
        nbytes = size_of(batch)
        if len(ranges) > 1 and nbytes > min(APPEND_BYTES, self._most_append):
            half = len(ranges) // 2
            return self._appends(rows, ranges[:half]) + self._appends(rows, ranges[half:])
        # What was stored of a request in part must not be stored again, whatever it has in it.
        whole = nbytes <= self._most_append
        requests = [
            RequestRows(
                each.number,
                each.end - each.start,
                self._digest(each.request, each.body, timed=not (each.timeless and whole)),
            )
            for each in ranges
        ]
        return [AppendBatch(batch, requests, nbytes)]

    def _refused(self, request: TelemetryRequest, error: Exception) -> FrazilError:
        """What its client is told. The server's log says more, of one request in a while."""
        problem = _problem(error)
        if isinstance(problem, TooMuch):
            return problem
        left_out = self._log_throttle.admit()
        if left_out is not None:
            ours = not isinstance(problem, RequestError)
            logger.log(
                logging.ERROR if ours else logging.INFO,
                "a request was refused",
                exc_info=error if ours else None,
                extra={
                    "topic": self._kind.topic,
                    "tenant": request.tenant,
                    "reason": str(error),
                    "cause": str(error.__cause__ or ""),
                    "left_out": left_out,
                },
            )
        return problem

    def _digest(self, request: TelemetryRequest, body: bytes, *, timed: bool) -> bytes | None:
        """By which a request with this message is recognised when it comes again, if it is to be."""
        if self._config.deduplicate == "never" or (self._config.deduplicate == "timed" and not timed):
            return None
        return request.hash or self._hash(request.tenant, body)

    def _hash(self, tenant: str, body: bytes) -> bytes:
        # Nearly twice as quick as SHA-256 where the processor has no instructions for that.
        digest = hashlib.blake2b(
            f"{tenant}\0{self._kind.message.DESCRIPTOR.full_name}\0".encode(), digest_size=HASH_BYTES
        )
        if len(body) > LONGEST_HASHED_IN_CHUNKS:
            digest.update(body)
        else:
            view = memoryview(body)
            for start in range(0, len(body), HASH_CHUNK_BYTES):
                digest.update(view[start : start + HASH_CHUNK_BYTES])
        return digest.digest()


def _problem(error: Exception) -> FrazilError:
    """What is told of it. Whatever is not about the message itself may be different the next time."""
    if isinstance(error, FrazilError):
        return error
    if isinstance(error, MemoryError):
        return TooMuch("There is not enough memory to read the request now.")
    if isinstance(error, NativeFault):
        return RequestError("The request cannot be made rows, and never will be.")
    return FrazilError("The request could not be made rows. The server's log says why.")
