"""Rewrites many small manifests into few, with Spark's `rewrite_manifests`, so that scans are planned quickly."""

from __future__ import annotations

import math

from pyiceberg.manifest import ManifestContent, ManifestFile
from pyiceberg.table import Table

from frazil.config.sections.maintenance import ManifestsConfig
from frazil.lake.catalog.lake import dotted
from frazil.lake.commit.offsets import current_snapshot
from frazil.maintain.context import MaintenanceContext
from frazil.maintain.maintained_tables import MaintainedTable
from frazil.maintain.manifest_reader import ManifestReader
from frazil.maintain.report import Amounts, OperationResult

_DEFAULT_TARGET = 8 * 1024 * 1024


class ManifestRewrite:
    name = "manifests"
    any_version = False

    def __init__(self, config: ManifestsConfig) -> None:
        self._config = config

    def applies(self, target: MaintainedTable) -> bool:
        return True

    def run(self, context: MaintenanceContext, table: Table, dry_run: bool) -> OperationResult:
        found = _data_manifests(table)
        before = _amounts(found)
        target = int(table.metadata.properties.get("commit.manifest.target-size-bytes", _DEFAULT_TARGET))
        expected = max(1, math.ceil(sum(each.manifest_length for each in found) / target))
        if len(found) < self._config.min_input_manifests or expected > len(found) / 2:
            return OperationResult("nothing", before, before)
        if dry_run:
            return OperationResult("would", before, Amounts(manifests=expected))
        return OperationResult("done", before, _amounts(_data_manifests(_rewrite(context, table))))


def _rewrite(context: MaintenanceContext, table: Table) -> Table:
    from frazil.maintain.spark_actions import actions, java_table, sync_to_disk, translating_errors

    identifier = table.name()
    context.progress(f"rewriting the manifests of {dotted(identifier)}")
    spark = context.spark()
    with context.exclusive(identifier), translating_errors("Rewriting the manifests of", identifier):
        actions(spark).rewriteManifests(java_table(spark, context.config, identifier)).execute()
    after = context.lake.load(identifier)
    sync_to_disk(table, after, [])
    return after


def _data_manifests(table: Table) -> list[ManifestFile]:
    """Returns the manifests that would be rewritten: data manifests of the current partition spec."""
    found = ManifestReader().manifests(table, [current_snapshot(table)]).values()
    spec = table.metadata.default_spec_id
    return [each for each in found if each.content == ManifestContent.DATA and each.partition_spec_id == spec]


def _amounts(manifests: list[ManifestFile]) -> Amounts:
    return Amounts(manifests=len(manifests), bytes=sum(each.manifest_length for each in manifests))
