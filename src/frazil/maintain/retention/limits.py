"""Reads the retention limits of a table from the settings: maximal age, maximal size, and the time column."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import UTC, datetime, timedelta

from pyiceberg.table import Table
from pyiceberg.types import DateType, NestedField, TimestampType, TimestamptzType

from frazil.config.model import Config
from frazil.config.sections.lake import NEEDS_RETENTION_COLUMN, TableConfig, TableLayoutConfig
from frazil.errors import ConfigError
from frazil.lake.commit.offsets import ROLE, TOPIC, name_of
from frazil.lake.tables.tables import derived_identifier

_LONGEST_SLACK = timedelta(days=1)
_SLACK = 0.1
"""Old rows in a file with younger ones may stay longer by this part of the limit, at most a day."""
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_FAILED_AT = "failed_at"
"""The time column of dead letters."""
_PUBLISH_TIME = "publish_time"
"""The time column of messages."""
_GIB = 1024**3


@dataclass(frozen=True)
class AgeLimit:
    """The age limit: rows before `moment` are to be removed, and those before `overdue` cannot wait any longer."""

    field: NestedField
    moment: datetime
    overdue: datetime

    def number(self, moment: datetime) -> int:
        """Converts a time to Iceberg's number for the column: days or microseconds."""
        if isinstance(self.field.field_type, DateType):
            return (moment - _EPOCH) // timedelta(days=1)
        return (moment - _EPOCH) // timedelta(microseconds=1)

    @property
    def text(self) -> str:
        if isinstance(self.field.field_type, DateType):
            return f"{self.moment:%Y-%m-%d}"
        zone = "+00:00" if isinstance(self.field.field_type, TimestamptzType) else ""
        return f"{self.moment.replace(tzinfo=None).isoformat(timespec='microseconds')}{zone}"

    @property
    def sql(self) -> str:
        """The limit as an SQL literal of the column's type."""
        kind = "TIMESTAMP"
        if isinstance(self.field.field_type, DateType):
            kind = "DATE"
        elif isinstance(self.field.field_type, TimestampType):
            kind = "TIMESTAMP_NTZ"
        return f"{kind} '{self.text.replace('T', ' ')}'"


@dataclass(frozen=True)
class RetentionBounds:
    """Limits of age and size. A row is to be removed when it is past one of them."""

    age: AgeLimit | None
    size: int | None
    """The maximal size of the table in bytes."""

    def __bool__(self) -> bool:
        return self.age is not None or self.size is not None

    def __str__(self) -> str:
        parts = []
        if self.age is not None:
            parts.append(f"rows with {self.age.field.name} before {self.age.text}")
        if self.size is not None:
            parts.append(f"the oldest files beyond {self.size / _GIB:g} GiB")
        return ", ".join(parts)


@dataclass(frozen=True)
class RetentionLimits:
    field: NestedField
    """The column with the time of a row."""
    bounds: RetentionBounds
    waiting: RetentionBounds
    """Rows past these limits are removed even if a subscription has not read them."""


def limits_of(table: Table, config: Config, now_ms: int) -> RetentionLimits | None:
    """Returns the limits that the settings have for the table, or None if they have none."""
    topic, role = table.metadata.properties[TOPIC], table.metadata.properties.get(ROLE, "base")
    given = config.topic(topic)
    layout: TableLayoutConfig
    if role == "derived":
        name = table.name()[-1]
        if name not in given.derived or derived_identifier(config, topic, name) != table.name():
            return None
        where, layout = f"topics.{topic}.derived.{name}", given.derived[name]
    else:
        where, layout = f"topics.{topic}.table", given.table
    column, size = layout.retention_column, layout.retention_gb
    if role == "dead-letter":
        column, size = _FAILED_AT, None
    if layout.retention_days is None and size is None:
        return None
    field = _field(table, column, where, layout.retention)
    now = datetime.fromtimestamp(now_ms / 1000, UTC)
    waiting = RetentionBounds(None, None)
    if isinstance(layout, TableConfig):
        waiting = _bounds(field, now, layout.subscription_retention_days, layout.subscription_retention_gb)
    return RetentionLimits(field, _bounds(field, now, layout.retention_days, size), waiting)


def _bounds(field: NestedField, now: datetime, days: float | None, size: float | None) -> RetentionBounds:
    age = None
    if days is not None:
        kept = timedelta(days=days)
        age = AgeLimit(field, now - kept, now - kept - min(kept * _SLACK, _LONGEST_SLACK))
    return RetentionBounds(age, None if size is None else int(size * _GIB))


def _field(table: Table, column: str | None, where: str, limited: str | None) -> NestedField:
    try:
        field = table.schema().find_field(column or _PUBLISH_TIME)
    except ValueError:
        if column is None:
            raise ConfigError(f"{where}.{limited}: {NEEDS_RETENTION_COLUMN}.") from None
        raise ConfigError(f"{where}.retention_column: table {name_of(table)} has no column {column!r}.") from None
    if not isinstance(field.field_type, DateType | TimestampType | TimestamptzType):
        raise ConfigError(
            f"{where}.retention_column: column {field.name!r} is a {field.field_type}, neither date nor timestamp."
        )
    return field
