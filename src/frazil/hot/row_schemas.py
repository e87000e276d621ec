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
from frazil.lake.evolution import grown
from frazil.lake.schema.arrow import arrow_schema
from frazil.lake.schema.columns_aside import asides_of
from frazil.lake.schema.table_schema import target_schema
from frazil.lake.schema.widening import widest
from frazil.lake.tables.identity import Standing, check_table
from frazil.lake.tables.tables import base_identifier
from frazil.log.log import Log
from frazil.scan.decode import DecodingRules, RowDecoder

logger = logging.getLogger(__name__)

REFRESH_SECONDS = 10.0
"""How long it may take until rows have columns that somebody else added to the table."""


class RowSchema:
    """Rows of one topic, by what was known at one moment."""

    def __init__(self, table: Table | None, decoder: Decoder | None, columns: tuple[pa.Schema, ...]) -> None:
        """`columns` are those that records have; the table may lack some."""
        self._table = table
        self._columns = columns
        # A record that does not fit is told as such, whatever is done about it on its way into the table.
        self.rules = DecodingRules(
            self._plan(columns), "dead-letter", decoder, asides_of(table.metadata) if table else {}
        )
        self.schema = arrow_schema(self.rules.schema).remove_metadata()
        self._covered = BySchema(self._covers)
        self._decoders = threading.local()
        self.made_at = time.monotonic()

    def _plan(self, columns: tuple[pa.Schema, ...]) -> Schema:
        if self._table is None:
            return target_schema(widest(list(columns)))
        return grown(self._table.metadata, *columns)

    def covers(self, columns: pa.Schema) -> bool:
        """Whether rows with these columns need no others than there are, or cannot get them."""
        return self._covered[columns]

    def _covers(self, columns: pa.Schema) -> bool:
        try:
            return bool(self._plan((*self._columns, columns)).fields == self.rules.schema.fields)
        except SchemaEvolution:
            return True

    def with_columns(self, *columns: pa.Schema) -> RowSchema:
        return RowSchema(self._table, self.rules.decoder, (*self._columns, *columns))

    @property
    def decoder_for_thread(self) -> RowDecoder:
        """One for each thread."""
        made: RowDecoder | None = getattr(self._decoders, "made", None)
        if made is None:
            made = self._decoders.made = RowDecoder(self.rules, lambda columns: not self.covers(columns))
        return made

    def refreshed(self, table: Table | None) -> RowSchema:
        return RowSchema(table, self.rules.decoder, self._columns)


class RowSchemas:
    """Thread-safe."""

    def __init__(self, config: Config, log: Log, lake: Lake) -> None:
        self._config = config
        self._log = log
        self._lake = lake
        self._schemas: dict[str, RowSchema] = {}
        self._refreshes: dict[str, Future[RowSchema]] = {}
        self._lock = threading.Lock()
        self._executor = ThreadPoolExecutor(1, thread_name_prefix="frazil-hot-shapes")

    def close(self) -> None:
        self._executor.shutdown(wait=True, cancel_futures=True)

    def of(self, topic: str) -> RowSchema:
        """As it is known now; it is renewed in the background when that is long ago."""
        row_schema = self._schemas.get(topic)
        if row_schema is None:
            return self._refresh(topic).result()
        if time.monotonic() - row_schema.made_at > REFRESH_SECONDS:
            self._refresh(topic)
        return row_schema

    def widen(self, topic: str, row_schema: RowSchema, *columns: pa.Schema) -> RowSchema:
        """The shape with what rows were found to have."""
        wider = row_schema.with_columns(*columns)
        with self._lock:
            self._schemas[topic] = wider
        return wider

    def _refresh(self, topic: str) -> Future[RowSchema]:
        with self._lock:
            running = self._refreshes.get(topic)
            if running is None or running.done():
                running = self._refreshes[topic] = self._executor.submit(self._load, topic)
            return running

    def _load(self, topic: str) -> RowSchema:
        known = self._schemas.get(topic)
        try:
            table = self._table(topic)
        except FrazilError as error:
            logger.warning("rows are shown without their table", extra={"topic": topic, "reason": str(error)})
            row_schema = known.refreshed(known._table) if known else self._first(topic, None)
        else:
            row_schema = known.refreshed(table) if known else self._first(topic, table)
        with self._lock:
            if self._schemas.get(topic) is known:
                self._schemas[topic] = row_schema
            return self._schemas[topic]

    def _first(self, topic: str, table: Table | None) -> RowSchema:
        schema = self._log.schemas(topic).known().schema
        decoder = open_decoder(self._config, topic, schema)
        columns = schema if decoder is None else decoder.columns()
        return RowSchema(table, decoder, (columns,))

    def _table(self, topic: str) -> Table | None:
        check = check_table(self._lake, self._log.store, topic, base_identifier(self._config, topic))
        return check.table if check.standing is Standing.FINE else None
