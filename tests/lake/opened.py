"""A lake with its store, as the mover and the command line use them."""

from __future__ import annotations

import pyarrow as pa
from pyiceberg.table import Table

from frazil.config.model import Config
from frazil.lake.catalog import Lake
from frazil.lake.opening import accept_table, open_base_table, recreate_table, wanted_base
from frazil.lake.schema import target_schema
from frazil.lake.standing import Standing, check_table
from frazil.lake.tables import base_identifier
from frazil.log.store import ObjectStore, open_store
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
        wanted = wanted_base(self.config, TOPIC, TOPIC_SCHEMA, {0: 7}, {0: EPOCH})
        return recreate_table(self.lake, self.store, wanted)

    def accept(self) -> Table:
        wanted = wanted_base(self.config, TOPIC, TOPIC_SCHEMA, {0: 7}, {0: EPOCH})
        return accept_table(self.lake, self.store, wanted, TOPIC_SCHEMA)

    def standing(self) -> Standing:
        return check_table(self.lake, self.store, TOPIC, self.identifier).standing

    def make_foreign(self, schema: pa.Schema = TOPIC_SCHEMA, **properties: str) -> Table:
        self.lake.ensure_namespace(self.identifier[:-1])
        return self.lake.catalog.create_table(self.identifier, target_schema(schema), properties=properties)
