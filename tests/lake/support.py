"""Small helpers for tests of the lake."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pyarrow as pa
from pyiceberg.table import Table

from frazil.config.model import Config
from frazil.config.sections.lake import TableLayoutConfig
from frazil.lake.catalog.lake import Lake
from frazil.lake.schema.table_schema import base_table_schema
from frazil.lake.tables.tables import base_identifier, create_table
from tests.servers.shared import NessieServer, S3Server

TOPIC = "orders"
TOPIC_SCHEMA = pa.schema([pa.field("id", pa.int64(), nullable=False), pa.field("text", pa.string())])
EPOCH = "epoch-one"


def local_config(folder: Path, **settings: Any) -> Config:
    """Returns the settings of an embedded lake: an SQLite catalog and a warehouse, both in `folder`."""
    return Config.model_validate({"data_dir": folder / "data", **settings})


def nessie_config(
    folder: Path,
    nessie: NessieServer,
    s3_server: S3Server,
    namespace: str,
    *,
    prefix: str = "queue-of-tests",
    endpoint: str | None = None,
    timeout_seconds: float = 20.0,
    **settings: Any,
) -> Config:
    """Returns the settings of a lake on a REST catalog, perhaps through a proxy at `endpoint`, with its log on S3."""
    lake = {
        "properties": nessie.properties(endpoint),
        "namespace": namespace,
        "timeout_seconds": timeout_seconds,
    }
    store = s3_server.config(f"{prefix}/{namespace}")
    return Config.model_validate({"data_dir": folder / "data", "lake": lake, "store": store, **settings})


def make_base_table(
    lake: Lake,
    topic: str = TOPIC,
    schema: pa.Schema = TOPIC_SCHEMA,
    offsets: Mapping[int, int] | None = None,
    layout: TableLayoutConfig | None = None,
) -> Table:
    """Creates the base table of a topic at these offsets. By default it has partition 0 from offset 0 on."""
    offsets = {0: 0} if offsets is None else offsets
    return create_table(
        lake,
        base_identifier(lake.config, topic),
        base_table_schema(schema),
        topic=topic,
        role="base",
        layout=layout or TableLayoutConfig(),
        offsets=offsets,
        epochs=dict.fromkeys(offsets, EPOCH),
    )
