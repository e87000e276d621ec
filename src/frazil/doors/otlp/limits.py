"""What tenants may send: how much in a second, how large a record, with how many attributes."""

from __future__ import annotations

import threading
from collections.abc import Callable

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.types as types

from frazil.config.otlp import OtlpLimitsConfig
from frazil.config.section import MIB
from frazil.errors import FrazilError
from frazil.telemetry.rows import Rejected, Rows

_Ints = npt.NDArray[np.int64]


class TooMuch(FrazilError):
    """Raised when more comes than can be taken now; `seconds` later it may be tried again."""

    retryable = True

    def __init__(self, message: str, seconds: float = 1.0) -> None:
        super().__init__(message)
        self.seconds = seconds


class Limits:
    """Thread-safe."""

    def __init__(self, config: OtlpLimitsConfig, monotonic: Callable[[], float]) -> None:
        self._config = config
        self._monotonic = monotonic
        self._lock = threading.Lock()
        self._spent: dict[str, tuple[float, float]] = {}
        """When each tenant was seen last, and what it had left then, in bytes."""

    def spend(self, tenant: str, nbytes: int) -> None:
        """Count what a tenant sends; `TooMuch` if that is over its rate."""
        if self._config.rate_mb is None:
            return
        rate = self._config.rate_mb * MIB
        most = (self._config.burst_mb or self._config.rate_mb) * MIB
        now = self._monotonic()
        with self._lock:
            seen, left = self._spent.get(tenant, (now, most))
            left = min(most, left + (now - seen) * rate)
            # One request may take more than there is, once there is all of it: it could never come otherwise.
            enough = min(nbytes, most)
            if left < enough:
                self._spent[tenant] = now, left
                raise TooMuch(
                    f"Tenant {tenant!r} sends more than {self._config.rate_mb:g} MiB a second "
                    f"(`otlp.limits.rate_mb`).",
                    (enough - left) / rate,
                )
            self._spent[tenant] = now, left - nbytes

    def without_excess(self, rows: Rows) -> Rows:
        """The rows without those that are over a limit, which are rejected."""
        most, most_attributes = self._config.max_record_kb * 1024, self._config.max_attributes
        batch = rows.batch
        too_many = np.diff(_borders(batch.column("attributes"))) > most_attributes
        too_large = row_bytes(batch) > most if batch.nbytes > most else np.zeros(len(batch), np.bool_)
        if not (too_large.any() or too_many.any()):
            return rows
        numbers = rows.requests.to_numpy()
        rejected = dict(rows.rejected)
        for wrong, reason in (
            (too_large, f"larger than {self._config.max_record_kb:,} KiB (`otlp.limits.max_record_kb`)"),
            (too_many & ~too_large, f"more than {most_attributes:,} attributes (`otlp.limits.max_attributes`)"),
        ):
            for number, count in zip(*np.unique(numbers[wrong], return_counts=True), strict=True):
                rejected[int(number)] = _joined(rejected.get(int(number)), Rejected(int(count), reason))
        kept = pa.array(~(too_large | too_many))
        return rows._replace(batch=batch.filter(kept), requests=rows.requests.filter(kept), rejected=rejected)


def _joined(first: Rejected | None, second: Rejected) -> Rejected:
    return Rejected(first.records + second.records, f"{first.reason}; {second.reason}") if first else second


def row_bytes(batch: pa.RecordBatch) -> _Ints:
    """About how many bytes each row has, but for what is of a fixed size."""
    total: _Ints = np.zeros(len(batch), np.int64)
    for column in batch.columns:
        total += _bytes(column)
    return total


def _bytes(array: pa.Array) -> _Ints:
    kind = array.type
    if types.is_string(kind) or types.is_binary(kind):
        return np.diff(_borders(array))
    if types.is_list(kind) or types.is_map(kind):
        items = _bytes(array.values) if types.is_list(kind) else _bytes(array.keys) + _bytes(array.items)
        sums: _Ints = np.zeros(len(items) + 1, np.int64)
        np.cumsum(items, out=sums[1:])
        found: _Ints = np.diff(sums[_borders(array)])
        return found
    if types.is_struct(kind):
        return sum((_bytes(array.field(place)) for place in range(kind.num_fields)), np.zeros(len(array), np.int64))
    return np.zeros(len(array), np.int64)


def _borders(array: pa.Array) -> _Ints:
    """Where the values of an array of texts, lists or maps begin, and where the last one ends."""
    offsets = np.frombuffer(array.buffers()[1], np.int32) if array.buffers()[1] else np.zeros(1, np.int32)
    return offsets[array.offset : array.offset + len(array) + 1].astype(np.int64)
