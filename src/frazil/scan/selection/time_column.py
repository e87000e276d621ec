"""Finds the column that says when a row happened, and reads times from it with nanoseconds."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc
from pyarrow.types import is_date32, is_integer, is_timestamp

from frazil.config.model import Config
from frazil.errors import CallError, ConfigError
from frazil.formats import kafka
from frazil.log.schema.columns import NANOSECONDS

TELEMETRY_TIME = "timestamp"
PUBLISH_TIME = "publish_time"

LEAST, MOST = -(2**63), 2**63 - 1
"""The bounds of what 64 bits of nanoseconds can say. Times beyond them are taken for the bounds."""
_MICROSECOND = 1000
_DAY_US = 86_400_000_000
_UNIT_US = {"s": 1_000_000, "ms": 1000, "us": 1}

Integers = npt.NDArray[np.int64]


@dataclass(frozen=True)
class TimeColumn:
    name: str
    rest: str | None
    """The column with the nanoseconds that microseconds leave out, if there is one."""
    kind: pa.DataType

    @property
    def columns(self) -> tuple[str, ...]:
        return (self.name,) if self.rest is None else (self.name, self.rest)

    def microseconds(self, column: pa.Array) -> Integers:
        """Returns times in microseconds. A null is taken for the least time."""
        if is_timestamp(self.kind):
            numbers = column.cast(pa.timestamp("us", self.kind.tz)).view(pa.int64())
        else:
            numbers = pc.multiply(column.view(pa.int32()).cast(pa.int64()), _DAY_US)
        return _filled(numbers, LEAST)

    def nanoseconds(self, batch: pa.RecordBatch) -> Integers | None:
        """Returns the nanoseconds that microseconds leave out, or None if there is no column of them."""
        return None if self.rest is None else _filled(batch.column(self.rest).cast(pa.int64()), 0)

    def within(self, batch: pa.RecordBatch, start_ns: int | None, end_ns: int | None) -> pa.BooleanArray:
        """Returns which rows are at `start_ns` or later and before `end_ns`. A row without a time is not."""
        times = self.microseconds(batch.column(self.name))
        rest = self.nanoseconds(batch)
        kept = np.ones(len(times), np.bool_)
        if start_ns is not None:
            kept &= _not_before(times, rest, start_ns)
        if end_ns is not None:
            kept &= ~_not_before(times, rest, end_ns)
        column = batch.column(self.name)
        if column.null_count:
            kept &= column.is_valid().to_numpy(zero_copy_only=False)
        return pa.array(kept)

    def bounds_ns(self, batch: pa.RecordBatch) -> tuple[int, int]:
        """Returns bounds of the times in a batch that is not empty."""
        times = self.microseconds(batch.column(self.name))
        return first_ns(int(times.min())), last_ns(int(times.max()))


def first_ns(microseconds: int) -> int:
    """Returns the first nanosecond of a microsecond."""
    return max(LEAST, min(MOST, microseconds * _MICROSECOND))


def last_ns(microseconds: int) -> int:
    return max(LEAST, min(MOST, microseconds * _MICROSECOND + _MICROSECOND - 1))


def bound_microseconds(bound: object, kind: pa.DataType) -> int | None:
    """Returns a bound of the column, as Arrow has it, in microseconds."""
    value = getattr(bound, "value", None)
    if value is None:
        return None
    return int(value) * (_UNIT_US[kind.unit] if is_timestamp(kind) else _DAY_US)


def time_column(config: Config, topic: str, schema: pa.Schema) -> TimeColumn | None:
    """Returns the column of time of a topic, or None if it has none.

    It is `timestamp` in the topics of telemetry, else what `retention_column` names, the time at which a message was
    published, or the timestamp that Kafka has.
    """
    named = config.topic(topic).table.retention_column
    if config.is_telemetry(topic):
        candidates = [TELEMETRY_TIME]
    elif named is not None:
        candidates = [named]
    else:
        candidates = [PUBLISH_TIME, kafka.TIMESTAMP]
    name = next((each for each in candidates if each in schema.names), None)
    if name is None:
        if named is not None and not config.is_telemetry(topic):
            raise ConfigError(f"topics.{topic}.table.retention_column: there is no column {named!r}.")
        return None
    kind = schema.field(name).type
    if not (is_date32(kind) or (is_timestamp(kind) and kind.unit in _UNIT_US)):
        return None
    rest = name + NANOSECONDS
    has_rest = rest in schema.names and is_integer(schema.field(rest).type)
    return TimeColumn(name, rest if has_rest else None, kind)


def required_time_column(config: Config, topic: str, schema: pa.Schema) -> TimeColumn:
    found = time_column(config, topic, schema)
    if found is None:
        raise CallError(
            f"Topic {topic!r} has no column of time, so it cannot be read by time or in the order of time. Name one "
            f"in topics.{topic}.table.retention_column."
        )
    return found


def _not_before(times: Integers, rest: Integers | None, moment_ns: int) -> npt.NDArray[np.bool_]:
    whole, part = divmod(moment_ns, _MICROSECOND)
    if rest is None:
        return times >= (whole if part == 0 else whole + 1)
    after: npt.NDArray[np.bool_] = (times > whole) | ((times == whole) & (rest >= part))
    return after


def _filled(numbers: pa.Array, value: int) -> Integers:
    if numbers.null_count:
        numbers = numbers.fill_null(value)
    found: Integers = numbers.to_numpy(zero_copy_only=False)
    return found
