"""Enforces what tenants may send: bytes per second, size of a record, and number of attributes."""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.types as types

from frazil.config.sections.section import MIB
from frazil.config.sections.telemetry import TelemetryConfig
from frazil.errors import RateExceeded
from frazil.formats.telemetry.lists import offsets_of, offsets_view
from frazil.formats.telemetry.rows import Rejected, TelemetryRows
from frazil.formats.telemetry.runs import Ints

_ATTRIBUTES = ("attributes", "resource_attributes", "scope_attributes")
"""The columns of attributes, each of which is counted on its own: labels of Loki's streams are attributes of a
resource. Attributes of events, links and exemplars are not counted, because the size of the record bounds them."""

MOST_TENANTS = 10_000
"""The most tenants whose rates are remembered."""

_SHORT = 4096
"""In a column of fewer bytes in total, the longest value is not searched."""


class TenantLimits:
    """The limits of all tenants. It is thread-safe."""

    def __init__(self, config: TelemetryConfig, monotonic: Callable[[], float]) -> None:
        self._config = config
        self._monotonic = monotonic
        self._lock = threading.Lock()
        self._spent: dict[str, tuple[float, float]] = {}
        """This says when each tenant was seen last, and how many bytes it had left then."""

    def spend(self, tenant: str, nbytes: int) -> None:
        """Counts what a tenant sends. Raises `RateExceeded` if that is over its rate."""
        limits = self._config.limits_of(tenant)
        if limits.rate_mb is None:
            return
        rate = limits.rate_mb * MIB
        most = (limits.burst_mb or limits.rate_mb) * MIB
        now = self._monotonic()
        with self._lock:
            seen, left = self._spent.get(tenant, (now, most))
            left = min(most, left + (now - seen) * rate)
            # One request may take more than the burst once the bucket is full; otherwise it could never be accepted.
            enough = min(nbytes, most)
            if left < enough:
                self._spent[tenant] = now, left
                raise RateExceeded(
                    f"Tenant {tenant!r} sends more than {limits.rate_mb:g} MiB a second "
                    f"({self._setting(tenant, 'rate_mb')}).",
                    (enough - left) / rate,
                )
            self._spent[tenant] = now, left - nbytes
            if len(self._spent) > MOST_TENANTS:
                # Tenants that were not seen for longest have regained most of their budget.
                self._spent = dict(sorted(self._spent.items(), key=lambda each: each[1])[MOST_TENANTS // 2 :])

    def without_excess(self, rows: TelemetryRows, tenants: Sequence[str], most_append: int) -> TelemetryRows:
        """Returns the rows without those over a limit, which are rejected. `tenants` has the tenant of each request,
        and no row may be larger than an append."""
        batch, numbers = rows.batch, rows.requests
        by_tenant = {tenant: self._config.limits_of(tenant) for tenant in tenants}
        counts = _most_of_any(batch, _ATTRIBUTES)
        few = counts.max(initial=0) <= min(each.max_attributes for each in by_tenant.values())
        least = min(most_append, *(each.max_record_kb * 1024 for each in by_tenant.values()))
        if few and (batch.get_total_buffer_size() <= least or most_row_bytes(batch) <= least):
            return rows
        limits = [by_tenant[tenant] for tenant in tenants]
        most = np.array([min(each.max_record_kb * 1024, most_append) for each in limits])
        too_many = counts > np.array([each.max_attributes for each in limits])[numbers]
        too_large = row_bytes(batch) > most[numbers]
        if not (too_large.any() or too_many.any()):
            return rows
        rejected = dict(rows.rejected)
        for number, count in _counted(numbers, too_large):
            setting = self._setting(tenants[number], "max_record_kb")
            setting = setting if most[number] < most_append else "`log.max_append_mb`"
            reason = f"larger than {most[number] // 1024:,} KiB ({setting})"
            rejected[number] = _joined(rejected.get(number), Rejected(count, reason))
        for number, count in _counted(numbers, too_many & ~too_large):
            setting = self._setting(tenants[number], "max_attributes")
            reason = f"more than {limits[number].max_attributes:,} attributes ({setting})"
            rejected[number] = _joined(rejected.get(number), Rejected(count, reason))
        kept = ~(too_large | too_many)
        return rows._replace(batch=batch.filter(pa.array(kept)), requests=numbers[kept], rejected=rejected)

    def _setting(self, tenant: str, name: str) -> str:
        """Returns the name of the setting that has a tenant's limit."""
        own = self._config.tenants.get(tenant)
        section = "limits" if own is None or getattr(own, name) is None else f"tenants.{tenant}"
        return f"`telemetry.{section}.{name}`"


def _counted(numbers: Ints, chosen: npt.NDArray[np.bool_]) -> list[tuple[int, int]]:
    """Returns the requests of the chosen rows, and the number of rows of each."""
    found, counts = np.unique(numbers[chosen], return_counts=True)
    return list(zip(found.tolist(), counts.tolist(), strict=True))


def _joined(first: Rejected | None, second: Rejected) -> Rejected:
    return Rejected(first.records + second.records, f"{first.reason}; {second.reason}") if first else second


def _most_of_any(batch: pa.RecordBatch, names: Sequence[str]) -> Ints:
    """Returns for each row the number of entries in its largest map."""
    counts = [np.diff(offsets_of(batch.column(name))) for name in names]
    found: Ints = np.maximum.reduce(counts)
    return found


def most_row_bytes(batch: pa.RecordBatch) -> int:
    """Returns an upper bound for the bytes of a row. It may be far too high, but is quicker than `row_bytes`."""
    return sum(map(_most_bytes, batch.columns))


def _most_bytes(array: pa.Array) -> int:
    kind = array.type
    if types.is_string(kind) or types.is_binary(kind):
        return _longest(array)
    if types.is_list(kind):
        return _longest(array) * _most_bytes(array.values)
    if types.is_map(kind):
        return _longest(array) * (_most_bytes(array.keys) + _most_bytes(array.items))
    if types.is_struct(kind):
        return sum(_most_bytes(array.field(place)) for place in range(kind.num_fields))
    return (int(kind.bit_width) + 7) // 8


def _longest(array: pa.Array) -> int:
    ends = offsets_view(array)
    total = int(ends[-1] - ends[0])
    # Many columns are almost empty.
    return total if total <= _SHORT else int((ends[1:] - ends[:-1]).max(initial=0))


def row_bytes(batch: pa.RecordBatch) -> Ints:
    """Returns the approximate bytes of each row."""
    total: Ints = np.zeros(len(batch), np.int64)
    for column in batch.columns:
        total += _bytes(column)
    return total


def _bytes(array: pa.Array) -> Ints:
    kind = array.type
    if types.is_string(kind) or types.is_binary(kind):
        return np.diff(offsets_of(array))
    if types.is_list(kind) or types.is_map(kind):
        items = _bytes(array.values) if types.is_list(kind) else _bytes(array.keys) + _bytes(array.items)
        sums: Ints = np.zeros(len(items) + 1, np.int64)
        np.cumsum(items, out=sums[1:])
        found: Ints = np.diff(sums[offsets_of(array)])
        return found
    if types.is_struct(kind):
        return sum((_bytes(array.field(place)) for place in range(kind.num_fields)), np.zeros(len(array), np.int64))
    return np.full(len(array), (kind.bit_width + 7) // 8, np.int64)
