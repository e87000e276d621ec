"""What the rows of a topic look like: as its table has them, with what newer records have beyond that.

The table is asked now and then, never by whoever looks something up, but for the first time. A catalog that is away
does not keep anybody from reading what is in memory: rows then have the columns that were known last, or their own.
"""

from __future__ import annotations

import logging
import threading
import time
from concurrent.futures import Future, ThreadPoolExecutor

import pyarrow as pa
from pyiceberg.schema import Schema
from pyiceberg.table import Table

from frazil.config.model import Config
from frazil.errors import FrazilError, SchemaEvolution
from frazil.formats.decoding import Decoder
from frazil.formats.memo import BySchema
from frazil.formats.opening import open_decoder
from frazil.lake.catalog.lake import Lake
from frazil.lake.evolution import evolved_schema
from frazil.lake.schema.arrow import arrow_schema
from frazil.lake.schema.replaced_columns import replaced_columns
from frazil.lake.schema.table_schema import base_table_schema
from frazil.lake.schema.widening import widest
from frazil.lake.tables.table_check import TableStatus, check_table
from frazil.lake.tables.tables import base_identifier
from frazil.log.log import Log
from frazil.scan.decode import RowMaker, Rules

logger = logging.getLogger(__name__)

REFRESH_SECONDS = 10.0
"""How long it may take until rows have columns that somebody else added to the table."""


class RowShape:
    """Rows of one topic, by what was known at one moment."""

    def __init__(self, table: Table | None, decoder: Decoder | None, columns: tuple[pa.Schema, ...]) -> None:
        """`columns` are those that records have; the table may lack some."""
        self._table = table
        self._columns = columns
        # A record that does not fit is told as such, whatever is done about it on its way into the table.
        self.rules = Rules(
            self._plan(columns), "dead-letter", decoder, replaced_columns(table.metadata) if table else {}
        )
        self.schema = arrow_schema(self.rules.schema).remove_metadata()
        self._covered = BySchema(self._covers)
        self._makers = threading.local()
        self.made_at = time.monotonic()

    def _plan(self, columns: tuple[pa.Schema, ...]) -> Schema:
        if self._table is None:
            return base_table_schema(widest(list(columns)))
        return evolved_schema(self._table.metadata, *columns)

    def covers(self, columns: pa.Schema) -> bool:
        """Whether rows with these columns need no others than there are, or cannot get them."""
        return self._covered[columns]

    def _covers(self, columns: pa.Schema) -> bool:
        try:
            return bool(self._plan((*self._columns, columns)).fields == self.rules.schema.fields)
        except SchemaEvolution:
            return True

    def with_columns(self, *columns: pa.Schema) -> RowShape:
        return RowShape(self._table, self.rules.decoder, (*self._columns, *columns))

    @property
    def maker(self) -> RowMaker:
        """One for each thread."""
        made: RowMaker | None = getattr(self._makers, "made", None)
        if made is None:
            made = self._makers.made = RowMaker(self.rules, lambda columns: not self.covers(columns))
        return made

    def renewed(self, table: Table | None) -> RowShape:
        return RowShape(table, self.rules.decoder, self._columns)


class Shapes:
    """Thread-safe."""

    def __init__(self, config: Config, log: Log, lake: Lake) -> None:
        self._config = config
        self._log = log
        self._lake = lake
        self._shapes: dict[str, RowShape] = {}
        self._renewals: dict[str, Future[RowShape]] = {}
        self._lock = threading.Lock()
        self._executor = ThreadPoolExecutor(1, thread_name_prefix="frazil-hot-shapes")

    def close(self) -> None:
        self._executor.shutdown(wait=True, cancel_futures=True)

    def of(self, topic: str) -> RowShape:
        """As it is known now; it is renewed in the background when that is long ago."""
        shape = self._shapes.get(topic)
        if shape is None:
            return self._renew(topic).result()
        if time.monotonic() - shape.made_at > REFRESH_SECONDS:
            self._renew(topic)
        return shape

    def widen(self, topic: str, shape: RowShape, *columns: pa.Schema) -> RowShape:
        """The shape with what rows were found to have."""
        wider = shape.with_columns(*columns)
        with self._lock:
            self._shapes[topic] = wider
        return wider

    def _renew(self, topic: str) -> Future[RowShape]:
        with self._lock:
            running = self._renewals.get(topic)
            if running is None or running.done():
                running = self._renewals[topic] = self._executor.submit(self._look, topic)
            return running

    def _look(self, topic: str) -> RowShape:
        known = self._shapes.get(topic)
        try:
            table = self._table(topic)
        except FrazilError as error:
            logger.warning("rows are shown without their table", extra={"topic": topic, "reason": str(error)})
            shape = known.renewed(known._table) if known else self._first(topic, None)
        else:
            shape = known.renewed(table) if known else self._first(topic, table)
        with self._lock:
            if self._shapes.get(topic) is known:
                self._shapes[topic] = shape
            return self._shapes[topic]

    def _first(self, topic: str, table: Table | None) -> RowShape:
        schema = self._log.schemas(topic).known().schema
        decoder = open_decoder(self._config, topic, schema)
        columns = schema if decoder is None else decoder.columns()
        return RowShape(table, decoder, (columns,))

    def _table(self, topic: str) -> Table | None:
        check = check_table(self._lake, self._log.store, topic, base_identifier(self._config, topic))
        return check.table if check.status is TableStatus.OK else None
