"""A process that opens the base table of a topic.

Run it with `python -m tests.lake.tables.creator FOLDER [NESSIE S3 NAMESPACE]`. With `FRAZIL_FAILPOINT` it dies on the
way.
"""

from __future__ import annotations

import sys
from pathlib import Path

from frazil.lake.catalog.lake import Lake
from frazil.lake.tables.opening import open_base_table
from frazil.lake.tables.put_aside import put_table_aside
from frazil.lake.tables.table_check import check_table
from frazil.lake.tables.tables import base_identifier
from frazil.store import open_store
from tests.lake.support import EPOCH, TOPIC, TOPIC_SCHEMA, local_config, nessie_config
from tests.servers.shared import NessieServer, S3Server


def main(recreate: bool, folder: str, *servers: str) -> None:
    if servers:
        nessie, s3, namespace = servers
        config = nessie_config(Path(folder), NessieServer(nessie, s3), S3Server(s3), namespace)
    else:
        config = local_config(Path(folder))
    lake = Lake(config)
    store = open_store(config.store, config.data_dir)
    if recreate:
        put_table_aside(lake, store, check_table(lake, store, TOPIC, base_identifier(config, TOPIC)))
    open_base_table(lake, store, config, TOPIC, TOPIC_SCHEMA, {0: 7}, {0: EPOCH})


if __name__ == "__main__":
    arguments = sys.argv[1:]
    main(arguments[0] == "--recreate", *(arguments[1:] if arguments[0] == "--recreate" else arguments))
