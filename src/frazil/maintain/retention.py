"""Retention: rows past their topic's limit leave the base table.

Files that hold nothing else are dropped by a change of metadata. A file that also holds younger rows is written again
without the old ones, which is Spark's work; it waits until its oldest row is overdue by a while, so that a file is
not written again at every run as time goes by.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Any

from pyiceberg.conversions import from_bytes
from pyiceberg.expressions import LessThan, Reference
from pyiceberg.expressions.literals import literal
from pyiceberg.manifest import DataFile
from pyiceberg.table import Table, Transaction
from pyiceberg.table.refs import MAIN_BRANCH
from pyiceberg.table.snapshots import Operation as SnapshotOperation
from pyiceberg.table.update.snapshot import _DeleteFiles
from pyiceberg.types import DateType, NestedField, PrimitiveType, TimestampType, TimestamptzType

from frazil.config.model import TableConfig
from frazil.errors import ConfigError
from frazil.lake.calls import calling
from frazil.lake.catalog import dotted
from frazil.lake.offsets import TOPIC, named
from frazil.maintain.changes import change
from frazil.maintain.contents import Contents, amounts
from frazil.maintain.report import Work
from frazil.maintain.targets import Target
from frazil.maintain.workshop import Workshop

_LONGEST_SLACK = timedelta(days=1)
_SLACK = 0.1
"""Part of the limit by which rows in a mixed file may be overdue, at most a day."""
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


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


@dataclass(frozen=True)
class Old:
    whole: list[DataFile]
    """All their rows have to go."""
    mixed: list[DataFile]
    """Some have, and cannot wait."""


def limit_of(table: Table, settings: TableConfig, topic: str, now_ms: int) -> Limit | None:
    column = settings.retention_column
    if settings.retention_days is None or column is None:
        return None
    where = f"topics.{topic}.table.retention_column"
    try:
        field = table.schema().find_field(column)
    except ValueError:
        raise ConfigError(f"{where}: table {named(table)} has no column {column!r}.") from None
    if not isinstance(field.field_type, DateType | TimestampType | TimestamptzType):
        raise ConfigError(f"{where}: column {column!r} is a {field.field_type}, neither date nor timestamp.")
    kept = timedelta(days=settings.retention_days)
    moment = datetime.fromtimestamp(now_ms / 1000, UTC) - kept
    return Limit(field, moment, moment - min(kept * _SLACK, _LONGEST_SLACK))


def old_files(files: list[DataFile], limit: Limit) -> Old:
    """By the statistics of the files; one without any is left as it is."""
    found = Old([], [])
    number = limit.field.field_id
    for file in files:
        lower, upper = _bound(file.lower_bounds, limit.field), _bound(file.upper_bounds, limit.field)
        if lower is None or upper is None:
            continue
        if upper < limit.number(limit.moment) and (file.null_value_counts or {}).get(number) == 0:
            found.whole.append(file)
        elif lower < limit.number(limit.overdue):
            found.mixed.append(file)
    return found


def _bound(bounds: dict[int, bytes] | None, field: NestedField) -> Any:
    stored = (bounds or {}).get(field.field_id)
    assert isinstance(field.field_type, PrimitiveType)
    return None if stored is None else from_bytes(field.field_type, stored)


class Retention:
    name = "retention"
    any_version = False

    def applies(self, target: Target) -> bool:
        return target.role == "base"

    def run(self, shop: Workshop, table: Table, dry_run: bool) -> Work:
        topic = table.metadata.properties[TOPIC]
        limit = limit_of(table, shop.config.topic(topic).table, topic, shop.now_ms())
        if limit is None:
            return Work("nothing")
        files = Contents().data_files(table)
        before = amounts(files)
        old = old_files(files, limit)
        if not old.whole and not old.mixed:
            return Work("nothing", before, before)
        note = f"rows with {limit.field.name} before {limit.text}"
        if dry_run:
            dropped = {file.file_path for file in old.whole}
            after = amounts(file for file in files if file.file_path not in dropped)
            rewritten = f"; {len(old.mixed)} files are written again without them" if old.mixed else ""
            return Work("would", before, after, note + rewritten, items=tuple(sorted(dropped)))
        with shop.turn(table.name()):
            if old.whole:
                table = drop_files(shop, table, old.whole, limit)
            if old.mixed:
                table = _delete_rows(shop, table, limit)
        return Work("done", before, amounts(Contents().data_files(table)), note)


def drop_files(shop: Workshop, table: Table, files: list[DataFile], limit: Limit) -> Table:
    with calling(f"Writing manifests of table {named(table)}"):
        deletion = _DeleteFiles(
            operation=SnapshotOperation.DELETE,
            transaction=Transaction(table),
            io=table.io,
            branch=MAIN_BRANCH,
        )
        # The predicate finds the manifests; which files go was decided on more than that.
        deletion.delete_by_predicate(LessThan(term=Reference(limit.field.name), value=literal(limit.text)))
        deletion._planned_delete_files = set(files)
        updates, _ = deletion._commit()
    return change(shop.lake, table, updates)


def _delete_rows(shop: Workshop, table: Table, limit: Limit) -> Table:
    from frazil.maintain.sparkwork import asking_spark, settle, sql_name

    identifier = table.name()
    shop.say(f"deleting old rows of {dotted(identifier)}")
    column = ".".join(f"`{part}`" for part in limit.field.name.split("."))
    with asking_spark("Deleting old rows of", identifier):
        shop.spark().sql(f"DELETE FROM {sql_name(shop.config, identifier)} WHERE {column} < {limit.sql}")
    after = shop.lake.load(identifier)
    old = {file.file_path for file in Contents().data_files(table)}
    settle(table, after, [file.file_path for file in Contents().data_files(after) if file.file_path not in old])
    return after
