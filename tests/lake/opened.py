"""A lake with its store, as the mover and the command line use them."""

from __future__ import annotations

import pyarrow as pa
from pyiceberg.table import Table

from frazil.config.model import Config
from frazil.lake.catalog.lake import Lake
from frazil.lake.schema.table_schema import base_table_schema
from frazil.lake.tables.opening import accept_table, open_base_table
from frazil.lake.tables.put_aside import put_table_aside
from frazil.lake.tables.table_check import TableCheck, TableStatus, check_table
from frazil.lake.tables.tables import base_identifier
from frazil.store import ObjectStore, open_store
from tests.lake.support import EPOCH, TOPIC, TOPIC_SCHEMA

TABLE = ("frazil", TOPIC)


class Opened:
    """One topic of a lake, with the calls that are made for it."""

    def __init__(self, config: Config) -> None:
        self.config = config
        self.lake = Lake(config)
        self.store: ObjectStore = open_store(config.store, config.data_dir)
        self.identifier = base_identifier(config, TOPIC)

    def open(self, schema: pa.Schema = TOPIC_SCHEMA, start: int = 7) -> Table:
        return open_base_table(self.lake, self.store, self.config, TOPIC, schema, {0: start}, {0: EPOCH})

    def recreate(self) -> Table:
        put_table_aside(self.lake, self.store, self.check())
        return self.open()

    def accept(self) -> Table:
        return accept_table(self.lake, self.store, self.check(), TOPIC_SCHEMA, {0: 7}, {0: EPOCH})

    def status(self) -> TableStatus:
        return self.check().status

    def check(self) -> TableCheck:
        return check_table(self.lake, self.store, TOPIC, self.identifier)

    def make_foreign(self, schema: pa.Schema = TOPIC_SCHEMA, **properties: str) -> Table:
        self.lake.ensure_namespace(self.identifier[:-1])
        return self.lake.catalog.create_table(self.identifier, base_table_schema(schema), properties=properties)
