"""Converts requests of one kind to rows, many at a time, in a thread.

They are decoded together, so that small ones cost little, and yet each has its own outcome: a fault in one does not
affect the others, and each is recognised when it is sent again.
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
from frazil.log.forms import RawAppends, RawEntry, make_rows
from frazil.log.positions import Origin
from frazil.log.writer.batch_sizes import size_of
from frazil.log.writer.group import BatchAppend
from frazil.native import NativeFault, faults_as_errors
from frazil.ops.throttle import Throttle

logger = logging.getLogger(__name__)

GROUP_BYTES = 5 * MIB // 4
"""The bytes of requests, uncompressed, that are decoded at a time. With more, nothing would be on its way to the disk
or back to clients meanwhile."""
APPEND_BYTES = 8 * MIB
"""The bytes of rows that are stored at a time."""
HASH_BYTES = 16
HASH_CHUNK_BYTES, LONGEST_HASHED_IN_CHUNKS = 2047, 16 * 1024
"""Python's lock is released to hash more than the first number of bytes at once, and getting it back may take longer
than hashing up to the second number in chunks."""
LONGEST_CHECKED_AT_ONCE = 64 * 1024
"""The largest request that the event loop itself checks: about a millisecond for data points."""
LOG_SECONDS = 1.0
"""This is how often, at most, the server's log mentions a refused request."""
LONGEST_HASHED_AT_ONCE = MIB
"""The largest request that the event loop itself hashes: half a millisecond, in which other threads run Python."""


class TelemetryRequest(NamedTuple):
    tenant: str
    body: bytes
    encoding: str = ""
    json: bool = False
    hash: bytes = b""
    """The hash of its tenant and message, once it is known."""

    @property
    def is_bare(self) -> bool:
        """Returns whether the body is the message itself, neither compressed nor JSON."""
        return not self.encoding and not self.json


class PlainRequest(NamedTuple):
    """A request that is stored as it came, and converted to rows later."""

    tenant: str
    body: bytes
    """The body as a Protobuf message."""
    estimate: RowEstimate
    digest: bytes | None


class RequestRows(NamedTuple):
    """The rows of a request, and its hash, by which they are recognised when they are sent again."""

    number: int
    """The request's index among those given."""
    rows: int
    digest: bytes | None

    def part(self, first: int, rows: int) -> BatchAppend:
        """Returns a range of its rows. Only its start is part of its identity, because the next time it may be cut
        elsewhere."""
        origin = Origin(request=self.digest + first.to_bytes(4)) if self.digest else None
        return BatchAppend(rows, origin)


class AppendBatch(NamedTuple):
    """Rows that are stored together: of several requests, or of one that is too large for one append. Or requests
    that are stored as they came."""

    content: pa.RecordBatch | RawAppends
    requests: list[RequestRows]
    nbytes: int
    """The size of the rows."""

    @property
    def row_bytes(self) -> int:
        """The average size of a row."""
        return self.nbytes // sum(request.rows for request in self.requests)


@dataclass
class ConvertedRequests:
    """The results of converting requests, by their index among those given."""

    taken: int = 0
    """The number of requests, from the first on, that were handled. The others would have been too much at once."""
    problems: dict[int, FrazilError] = field(default_factory=dict)
    rejected: dict[int, Rejected] = field(default_factory=dict)
    tallies: dict[int, object] = field(default_factory=dict)
    """The counts for the answer to each (`RequestKind.tally`)."""
    appends: list[AppendBatch] = field(default_factory=list)


class _RequestRange(NamedTuple):
    """The range of a request's rows."""

    number: int
    start: int
    end: int
    request: TelemetryRequest
    body: bytes
    """The body as a Protobuf message."""
    timeless: bool


class RequestConverter:
    """Converts requests of one kind. It is thread-safe."""

    def __init__(
        self,
        kind: RequestKind,
        config: TelemetryConfig,
        limits: TenantLimits,
        metrics: TelemetryMetrics,
        clock: Clock,
        most_append: int,
    ) -> None:
        """`most_append` is the largest append in bytes."""
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
        """Checks a new request within microseconds. Returns None if that would take longer, or if the request has to
        be converted to rows before it is stored."""
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
        """Returns the request with this message if it can be stored as it came. Raises `RequestError` if it is not a
        message, which the decoder must not see."""
        message = check(self._kind.message, body)
        form = self._kind.storage_form
        estimate = form.estimate(message, body, self._record_limits(request.tenant)) if form else None
        if estimate is None:
            return None
        return PlainRequest(request.tenant, body, estimate, self._digest(request, body, timed=True))

    def with_hash(self, request: TelemetryRequest) -> TelemetryRequest:
        """Returns the request with its hash, if the event loop has the time for that."""
        if self._config.deduplicate == "never" or not request.is_bare or len(request.body) > LONGEST_HASHED_AT_ONCE:
            return request
        return request._replace(hash=self._hash(request.tenant, request.body))

    def plain_appends(self, plain: Mapping[int, PlainRequest]) -> list[AppendBatch]:
        """Groups plain requests, given by their index, into appends."""
        most = min(APPEND_BYTES, self._most_append)
        appends: list[AppendBatch] = []
        group: dict[int, PlainRequest] = {}
        nbytes = 0
        for number, each in plain.items():
            if group and nbytes + each.estimate.nbytes > most:
                appends.append(self._plain_append(group))
                group, nbytes = {}, 0
            group[number] = each
            nbytes += each.estimate.nbytes
        if group:
            appends.append(self._plain_append(group))
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

    def rows_of(self, raw: RawAppends) -> pa.RecordBatch:
        """Converts requests that are not stored yet to rows."""
        return make_rows(raw.form, [RawEntry(raw.appends, raw.rows, self._clock.now_ms())], raw.schema)

    def _record_limits_of(self, tenant: str) -> RecordLimits:
        limits = self._config.limits_of(tenant)
        most = min(limits.max_record_kb * 1024, self._most_append)
        return RecordLimits(most, limits.max_attributes, self._most_append)

    def convert(self, requests: Sequence[TelemetryRequest]) -> ConvertedRequests:
        done = ConvertedRequests()
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

    def _convert_all(
        self, requests: Sequence[TelemetryRequest], bodies: dict[int, bytes], done: ConvertedRequests
    ) -> None:
        """Converts all requests together. If that fails, converts each half on its own, so that in the end only
        faulty requests fail."""
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

    def _convert(
        self, requests: Sequence[TelemetryRequest], bodies: dict[int, bytes], done: ConvertedRequests
    ) -> None:
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
        """Groups the rows of consecutive requests into appends."""
        if not ranges:
            return []
        batch = rows.slice(ranges[0].start, ranges[-1].end - ranges[0].start)
        nbytes = size_of(batch)
        if len(ranges) > 1 and nbytes > min(APPEND_BYTES, self._most_append):
            half = len(ranges) // 2
            return self._appends(rows, ranges[:half]) + self._appends(rows, ranges[half:])
        # If a request is stored in part, its stored rows must not be stored again, even without times.
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
        """Returns the error for the client. The server's log has more details, for some requests."""
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
        """Returns the digest by which a request with this message is recognised when it is sent again, if it should
        be."""
        if self._config.deduplicate == "never" or (self._config.deduplicate == "timed" and not timed):
            return None
        return request.hash or self._hash(request.tenant, body)

    def _hash(self, tenant: str, body: bytes) -> bytes:
        # This is nearly twice as fast as SHA-256 on processors without instructions for that.
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
    """Returns the error for the client. Unless it is about the message itself, the next try may succeed."""
    if isinstance(error, FrazilError):
        return error
    if isinstance(error, MemoryError):
        return TooMuch("There is not enough memory to read the request now.")
    if isinstance(error, NativeFault):
        return RequestError("The request cannot be made rows, and never will be.")
    return FrazilError("The request could not be made rows. The server's log says why.")
