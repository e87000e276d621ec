"""Compacts tables with equality deletes, which Frazil does not read, with Spark's `rewrite_data_files`."""

from __future__ import annotations

from pyiceberg.table import Table

from frazil.config.sections.maintenance import CompactionConfig
from frazil.lake.checksums.verifying_io import check_files
from frazil.lake.write.data_files import target_bytes
from frazil.maintain.compaction.policy import SMALL
from frazil.maintain.context import MaintenanceContext
from frazil.maintain.manifest_reader import ManifestReader, count_files
from frazil.maintain.report import OperationResult

REASON = "it has equality deletes, so Spark's rewrite_data_files compacts it instead of Frazil"


def rewrite_with_spark(context: MaintenanceContext, table: Table, config: CompactionConfig) -> OperationResult:
    """Rewrites what Spark takes for worth it. Raises `CasConflict` if somebody else changed the table meanwhile."""
    from frazil.maintain.spark_actions import actions, java_table, sync_to_disk, translating_errors

    files = ManifestReader().data_files(table)
    check_files(table, files)
    identifier, spark = table.name(), context.spark()
    with translating_errors("Compacting", identifier):
        action = actions(spark).rewriteDataFiles(java_table(spark, context.config, identifier))
        ordered = bool(table.sort_order().fields) and config.strategy != "binpack"
        action = action.sort() if ordered else action.binPack()
        options = {
            "target-file-size-bytes": target_bytes(table.metadata),
            "min-file-size-bytes": int(SMALL * target_bytes(table.metadata)),
            "min-input-files": max(2, config.min_input_files),
        }
        for name, value in options.items():
            action = action.option(name, str(value))
        action.execute()
    after = context.lake.load(identifier)
    now = ManifestReader().data_files(after)
    old = {file.file_path for file in files}
    written = [file.file_path for file in now if file.file_path not in old]
    sync_to_disk(table, after, written)
    return OperationResult("done" if written else "nothing", count_files(files), count_files(now), note=REASON)
