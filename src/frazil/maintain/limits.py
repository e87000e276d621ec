"""How old the rows of a table may become, and what tells their age."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import UTC, datetime, timedelta

from pyiceberg.table import Table
from pyiceberg.types import DateType, NestedField, TimestampType, TimestamptzType

from frazil.config.lake import TableLayoutConfig
from frazil.config.model import Config
from frazil.errors import ConfigError
from frazil.lake.offsets import ROLE, TOPIC, named
from frazil.lake.tables import derived_identifier

_LONGEST_SLACK = timedelta(days=1)
_SLACK = 0.1
"""Part of the limit by which rows in a mixed file may be overdue, at most a day."""
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_FAILED_AT = "failed_at"
"""Column of the dead letters."""


@dataclass(frozen=True)
class Limit:
    """Rows before `moment` have to go; `overdue` is what cannot wait any longer."""

    field: NestedField
    moment: datetime
    overdue: datetime

    def number(self, moment: datetime) -> int:
        """As Iceberg counts: days or microseconds."""
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
        """A literal of the column's type."""
        kind = "TIMESTAMP"
        if isinstance(self.field.field_type, DateType):
            kind = "DATE"
        elif isinstance(self.field.field_type, TimestampType):
            kind = "TIMESTAMP_NTZ"
        return f"{kind} '{self.text.replace('T', ' ')}'"


def limit_of(table: Table, config: Config, now_ms: int) -> Limit | None:
    """By the settings of the table's topic; nothing where they set none."""
    topic, role = table.metadata.properties[TOPIC], table.metadata.properties.get(ROLE, "base")
    given = config.topic(topic)
    if role == "derived":
        name = table.name()[-1]
        if name not in given.derived or derived_identifier(config, topic, name) != table.name():
            return None
        where, days, column = f"topics.{topic}.derived.{name}", *_settings(given.derived[name])
    else:
        where, days, column = f"topics.{topic}.table", *_settings(given.table)
        column = _FAILED_AT if role == "dead-letter" else column
    if days is None or column is None:
        return None
    kept = timedelta(days=days)
    moment = datetime.fromtimestamp(now_ms / 1000, UTC) - kept
    return Limit(_field(table, column, where), moment, moment - min(kept * _SLACK, _LONGEST_SLACK))


def _settings(layout: TableLayoutConfig) -> tuple[float | None, str | None]:
    return layout.retention_days, layout.retention_column


def _field(table: Table, column: str, where: str) -> NestedField:
    try:
        field = table.schema().find_field(column)
    except ValueError:
        raise ConfigError(f"{where}.retention_column: table {named(table)} has no column {column!r}.") from None
    if not isinstance(field.field_type, DateType | TimestampType | TimestamptzType):
        raise ConfigError(
            f"{where}.retention_column: column {column!r} is a {field.field_type}, neither date nor timestamp."
        )
    return field
