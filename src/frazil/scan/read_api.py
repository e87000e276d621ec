"""Implements `frazil.read`, which gives a topic as Arrow or Polars."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import closing
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.compute as pc

from frazil.config.load import load_config
from frazil.config.model import Config
from frazil.errors import CallError
from frazil.lake.catalog.lake import Lake
from frazil.lake.schema.arrow import plain_schema
from frazil.log.topics.naming import existing_topic
from frazil.scan.execution.pinned_scan import PinnedScan
from frazil.scan.interface import ScanRequest
from frazil.scan.log_location import LogLocation
from frazil.scan.offset_ranges import EARLIEST, LATEST, Bound
from frazil.scan.pinned_topic import PinnedTopic
from frazil.scan.predicates.arrow import check
from frazil.scan.predicates.arrow_expressions import Translated, from_arrow
from frazil.scan.predicates.simplify import all_of
from frazil.scan.predicates.text import parse_where
from frazil.scan.predicates.tree import Predicate
from frazil.scan.scanner import TopicScanner
from frazil.scan.tenants import Tenant
from frazil.scan.topic_rows import TopicRows

if TYPE_CHECKING:
    import polars as pl


def read(
    topic: str,
    *,
    config: Config | str | Path | None = None,
    columns: Sequence[str] | None = None,
    where: str | pc.Expression | None = None,
    start: Mapping[int, int] | None = None,
    end: Mapping[int, int] | None = None,
    tenant: str | None = None,
) -> Rows:
    """All rows of a topic as they are now, whether in the table or still in the log.

    `frazil.read("orders").polars()` is a data frame, `.reader()` a stream of Arrow batches.
    Settings are found as the command line finds them: `config` or `frazil.yaml`, and the environment.

    `where` is a text such as `"amount > 10 and country = 'de'"` or an Arrow expression; files that cannot have such
    rows are not read. `start` and `end` are log offsets by partition: rows with `start <= _offset < end`.

    What is read is settled here: later readings of the result give the same rows, whatever is committed meanwhile,
    for as long as the grace times of maintenance keep their files.
    """
    settings = config if isinstance(config, Config) else load_config(Path(config) if config else None).config
    with closing(Lake(settings)) as lake:
        return Rows(_pinned(settings, topic, lake, start or {}, end or {}, tenant), columns, where)


def _pinned(
    settings: Config,
    topic: str,
    lake: Lake,
    start: Mapping[int, int],
    end: Mapping[int, int],
    tenant: str | None,
) -> PinnedScan | PinnedTopic:
    if not start and not end:
        return TopicScanner(settings, lake).pin(ScanRequest(topic, None if tenant is None else (tenant,)))
    existing_topic(LogLocation.of(settings, topic).open(), topic)
    rows = TopicRows(settings, topic, lake=lake)
    column = settings.topic(topic).tenant_column
    whose = Tenant(column, tenant) if column and tenant is not None else None
    return PinnedTopic(rows, rows.snapshots.take(tail=True), whose, Bound(EARLIEST, start), Bound(LATEST, end))


class Rows:
    """Has the rows of one topic at one cut. Each read starts anew and has no order."""

    def __init__(
        self, pinned: PinnedScan | PinnedTopic, columns: Sequence[str] | None, where: str | pc.Expression | None
    ) -> None:
        self.topic = pinned.topic
        self._pinned = pinned
        self._columns = pinned.select_columns(columns)
        self._where = _translated(where, pinned.schema)

    def __repr__(self) -> str:
        return f"<rows of {self.topic}, log offsets below {self.offsets}>"

    @property
    def offsets(self) -> dict[int, int]:
        """Returns the cut: by partition, exactly the rows below these log offsets are here."""
        return self._pinned.offsets

    @cached_property
    def schema(self) -> pa.Schema:
        plain = plain_schema(self._pinned.iceberg_schema)
        return pa.schema([plain.field(name) for name in self._columns])

    def reader(self) -> pa.RecordBatchReader:
        """Returns a stream of batches, of which only a few are in memory at a time."""
        return pa.RecordBatchReader.from_batches(self.schema, self._batches(self._columns))

    def table(self) -> pa.Table:
        return self.reader().read_all()

    def polars(self) -> pl.DataFrame:
        import polars as pl

        from frazil.scan.execution.polars_frame import plain

        return pl.DataFrame(plain(self.table()))

    def lazy(self) -> pl.LazyFrame:
        """Returns a frame that reads when it is collected, and only the columns and rows that it needs then."""
        from frazil.scan.execution.polars_frame import lazy_frame

        return lazy_frame(self.schema, self._pinned.schema, self._batches)

    def __arrow_c_stream__(self, requested_schema: object = None) -> Any:
        """Makes this usable by all that accepts Arrow: `pl.DataFrame(rows)`, `pa.table(rows)`, DuckDB, pandas."""
        return self.reader().__arrow_c_stream__(requested_schema)

    def _batches(self, columns: Sequence[str], also: Predicate | None = None) -> Iterator[pa.RecordBatch]:
        """Yields the rows for which `also` is true too."""
        schema = pa.schema([self.schema.field(name) for name in columns])
        where = self._where or Translated(None, None, ())
        for batch in self._pinned.read(columns, where._replace(predicate=all_of(where.predicate, also))):
            yield batch.cast(schema)


def _translated(where: str | pc.Expression | None, schema: pa.Schema) -> Translated | None:
    if where is None:
        return None
    try:
        if not isinstance(where, str):
            return from_arrow(where, schema)
        predicate = parse_where(where)
        check(predicate, schema)
    except CallError as error:
        raise CallError(f"where: {error}") from error
    return Translated(predicate, None, ())
