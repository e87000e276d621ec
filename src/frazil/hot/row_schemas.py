"""Knows the schema of each topic's rows: the columns of its table, and those that only newer records have.

The table is reloaded in the background, and a lookup waits for it only the first time. If the catalog is away, rows
in memory can still be read: they have the columns that were known last, or their own.
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
from frazil.formats.schema_cache import SchemaCache
from frazil.formats.topic_decoder import open_decoder
from frazil.lake.catalog.lake import Lake
from frazil.lake.evolution import evolved_schema
from frazil.lake.schema.arrow import arrow_schema
from frazil.lake.schema.replaced_columns import replaced_columns
from frazil.lake.schema.table_schema import base_table_schema
from frazil.lake.schema.widening import widest
from frazil.lake.tables.table_check import TableStatus, check_table
from frazil.lake.tables.tables import base_identifier
from frazil.log.log import Log
from frazil.scan.decode import DecodingRules, RowDecoder

logger = logging.getLogger(__name__)

REFRESH_SECONDS = 10.0
"""Rows get columns that somebody else added to the table after at most this long."""


class RowSchema:
    """Is the schema of one topic's rows, as it was known at one moment."""

    def __init__(self, table: Table | None, decoder: Decoder | None, columns: tuple[pa.Schema, ...]) -> None:
        """`columns` are those of the records. The table may lack some of them."""
        self._table = table
        self._columns = columns
        # A record that does not fit is reported here, whatever the table's policy for it is.
        self.rules = DecodingRules(
            self._plan(columns), "dead-letter", decoder, replaced_columns(table.metadata) if table else {}
        )
        self.schema = arrow_schema(self.rules.schema).remove_metadata()
        self._covered = SchemaCache(self._covers)
        self._decoders = threading.local()
        self.made_at = time.monotonic()

    def _plan(self, columns: tuple[pa.Schema, ...]) -> Schema:
        if self._table is None:
            return base_table_schema(widest(list(columns)))
        return evolved_schema(self._table.metadata, *columns)

    def covers(self, columns: pa.Schema) -> bool:
        """Returns whether the schema has all these columns, or cannot get the missing ones."""
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
        """Returns the decoder of the current thread."""
        made: RowDecoder | None = getattr(self._decoders, "made", None)
        if made is None:
            made = self._decoders.made = RowDecoder(self.rules, lambda columns: not self.covers(columns))
        return made

    def refreshed(self, table: Table | None) -> RowSchema:
        return RowSchema(table, self.rules.decoder, self._columns)


class RowSchemas:
    """Is safe to use from several threads."""

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
        """Returns the schema as it is known now, and refreshes it in the background when it is old."""
        row_schema = self._schemas.get(topic)
        if row_schema is None:
            return self._refresh(topic).result()
        if time.monotonic() - row_schema.made_at > REFRESH_SECONDS:
            self._refresh(topic)
        return row_schema

    def widen(self, topic: str, row_schema: RowSchema, *columns: pa.Schema) -> RowSchema:
        """Adds columns that rows were found to have."""
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
        return check.table if check.status is TableStatus.OK else None
