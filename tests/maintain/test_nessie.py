"""Maintenance on a REST catalog that collects its own garbage, with tables on S3."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa

from frazil.config.model import CompactionConfig, ExpiryConfig, ManifestsConfig, OrphansConfig
from frazil.lake.catalog import Lake
from frazil.lake.offsets import TableState, check_history
from frazil.lake.tables import base_identifier
from frazil.maintain.compaction import Compaction
from frazil.maintain.expiry import Expiry
from frazil.maintain.manifests import ManifestRewrite
from frazil.maintain.operations import perform
from frazil.maintain.orphans import OrphanRemoval
from frazil.maintain.targets import find_targets
from tests.lake.commits import read_rows, span
from tests.lake.support import make_base_table, nessie_config
from tests.maintain.support import SparkFor, make_shop, move
from tests.servers.shared import NessieServer, S3Server


def test_tables_are_compacted_and_the_rest_is_left_to_the_catalog(
    tmp_path: Path, nessie: NessieServer, s3_server: S3Server, namespace: str, spark_for: SparkFor
) -> None:
    config = nessie_config(tmp_path, nessie, s3_server, namespace)
    lake = Lake(config)
    make_base_table(lake, "events", pa.schema([pa.field("text", pa.string())]))
    name = base_identifier(config, "events")
    move(lake, 6, name=name)
    (target,) = find_targets(lake, config)
    shop = make_shop(lake, spark=spark_for(config))
    report = perform(shop, Compaction(CompactionConfig()), target)
    assert (report.outcome, report.work.before.files, report.work.after.files) == ("done", 6, 1), report.work.note
    assert perform(make_shop(lake), Compaction(CompactionConfig()), target).outcome == "nothing"
    move(lake, 6, name=name)
    report = perform(shop, ManifestRewrite(ManifestsConfig(min_input_manifests=4)), target)
    assert report.outcome == "done", report.work.note
    for operation in (Expiry(ExpiryConfig(keep_last=1, max_snapshots=1)), OrphanRemoval(OrphansConfig())):
        report = perform(make_shop(lake), operation, target)
        assert report.outcome == "skipped"
        assert "garbage collection" in report.work.note
    table = lake.load(name)
    check_history(table)
    assert TableState.of(table).offsets == {0: 120}
    assert read_rows(lake, name) == span(0, 0, 120)
