"""Retention: removes rows past the limit of their table, once all who need them have read them.

Files with only such rows are dropped by a change of metadata. A file that also has younger rows is rewritten without
the old ones. It waits until its oldest row is overdue by a while, so that a file is not rewritten at every
run.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from functools import partial

from pyiceberg.manifest import DataFile
from pyiceberg.table import Table
from pyiceberg.table.update import SetPropertiesUpdate

from frazil.failpoints import failpoint
from frazil.lake.catalog.calls import calling
from frazil.lake.catalog.lake import Identifier, dotted
from frazil.lake.checksums.verifying_io import check_files
from frazil.lake.commit.complete_offsets import complete_from_properties
from frazil.lake.commit.offsets import ROLE, TOPIC, name_of
from frazil.lake.pyiceberg_internals import write_deletion
from frazil.log.schema.columns import OFFSET, PARTITION
from frazil.log.topics.generations import creation
from frazil.maintain.compaction.live_files import LiveFiles, table_files
from frazil.maintain.context import MaintenanceContext
from frazil.maintain.maintained_tables import MaintainedTable
from frazil.maintain.manifest_reader import ManifestReader, count_files
from frazil.maintain.metadata_updates import commit_updates
from frazil.maintain.report import OperationResult
from frazil.maintain.retention.keep_offsets import FileOffsetBounds
from frazil.maintain.retention.limits import RetentionLimits, limits_of
from frazil.maintain.retention.plan import RetentionPlan
from frazil.maintain.retention.plan_by_offset import plan_by_offset
from frazil.maintain.retention.plan_by_time import plan_by_time
from frazil.maintain.retention.read_progress import highest_offsets
from frazil.maintain.rewrite.replacing import replace_files
from frazil.maintain.rewrite.rewriting import FileGroup
from frazil.maintain.rewrite.tasks import Rewriter, rewrite_in_spark


class Retention:
    name = "retention"
    any_version = False

    def __init__(self, rewriter: Rewriter | None = None) -> None:
        """`rewriter` rewrites files elsewhere than in Spark's tasks."""
        self._rewriter = rewriter
        self._offset_bounds: dict[Identifier, FileOffsetBounds] = {}
        """The offsets that were read from files of tables with messages, for the next run."""

    def applies(self, target: MaintainedTable) -> bool:
        return True

    def run(self, context: MaintenanceContext, table: Table, dry_run: bool) -> OperationResult:
        limits = limits_of(table, context.config, context.now_ms())
        if limits is None:
            return OperationResult("nothing")
        files = ManifestReader().data_files(table)
        before = count_files(files)
        plan = self._plan(context, table, files, limits)
        if not plan and not plan.held:
            return OperationResult("nothing", before, before)
        note = str(limits.bounds)
        if plan.held:
            note += f"; {plan.held} files with such rows stay until they have been read by {plan.waits}"
        if not plan:
            return OperationResult("skipped", before, before, note)
        if dry_run:
            dropped = {file.file_path for file in plan.whole}
            after = count_files(file for file in files if file.file_path not in dropped)
            rewritten = f"; {len(plan.mixed)} files are written again without them" if plan.mixed else ""
            return OperationResult("would", before, after, note + rewritten, items=tuple(sorted(dropped)))
        first = table.metadata.current_snapshot_id
        if plan.whole:
            with context.exclusive(table.name()):
                table = drop_files(context, table, plan)
        if plan.mixed:
            table = self._without_old_rows(context, table, plan)
        done = table.metadata.current_snapshot_id != first
        return OperationResult(
            "done" if done else "nothing", before, count_files(ManifestReader().data_files(table)), note
        )

    def _without_old_rows(self, context: MaintenanceContext, table: Table, plan: RetentionPlan) -> Table:
        """Rewrites mixed files, as compaction does. Spark does it where Frazil cannot read or write such files."""
        live = LiveFiles.of(table)
        spec = table.metadata.default_spec_id
        if live.deletes_by_value or any(file.spec_id != spec for file in plan.mixed):
            with context.exclusive(table.name()):
                return _delete_rows(context, table, plan)
        context.progress(f"rewriting {len(plan.mixed)} files of {dotted(table.name())} without old rows")
        files = table_files(table, plan.mixed)
        groups = [FileGroup((files[file.file_path],), plan.old) for file in plan.mixed]
        return replace_files(context, table, groups, self._rewriter or partial(rewrite_in_spark, context.spark))

    def _plan(
        self, context: MaintenanceContext, table: Table, files: list[DataFile], limits: RetentionLimits
    ) -> RetentionPlan:
        if not _has_messages(context, table):
            return plan_by_time(context, table, files, limits)
        known = self._offset_bounds.get(table.name(), {})
        # Entries of files that are no longer in the table are dropped.
        known = self._offset_bounds[table.name()] = {
            path: known[path] for file in files if (path := file.file_path) in known
        }
        return plan_by_offset(context, table, files, limits, known)


def _has_messages(context: MaintenanceContext, table: Table) -> bool:
    """Returns whether the table may be followed by offset, in particular by subscriptions."""
    return _is_base(table) and creation(context.store, table.metadata.properties[TOPIC]) is not None


def drop_files(
    context: MaintenanceContext, table: Table, plan: RetentionPlan, highest: Mapping[int, int] | None = None
) -> Table:
    """Drops files from the table and returns it. `highest` are the last offsets in them, if they cannot be read."""
    with calling(f"Writing manifests of table {name_of(table)}"):
        updates = write_deletion(table, plan.manifests, plan.whole)
        if highest is None:
            highest = _highest(highest_offsets(table, file) for file in plan.whole) if _is_base(table) else {}
    return commit_updates(context.lake, table, [*updates, *_marking(table, highest)])


def _delete_rows(context: MaintenanceContext, table: Table, plan: RetentionPlan) -> Table:
    from frazil.maintain.spark_actions import sql_name, sync_to_disk, translating_errors

    identifier = table.name()
    check_files(table, plan.mixed)
    context.progress(f"deleting old rows of {dotted(identifier)}")
    name = sql_name(context.config, identifier)
    if table.metadata.properties.get(ROLE, "base") != "derived":
        with translating_errors("Looking for old rows of", identifier):
            query = f"SELECT {PARTITION}, max({OFFSET}) FROM {name} WHERE {plan.where} GROUP BY 1"
            rows = context.spark().sql(query).collect()
        if not rows:
            return table
        # The property is set before the rows are removed. After a kill in between it names too many rows, never too
        # few.
        if updates := _marking(table, {row[0]: row[1] for row in rows if row[0] is not None}):
            table = commit_updates(context.lake, table, updates)
        failpoint("retention.marked")
    with translating_errors("Deleting old rows of", identifier):
        context.spark().sql(f"DELETE FROM {name} WHERE {plan.where}")
    after = context.lake.load(identifier)
    old = {file.file_path for file in ManifestReader().data_files(table)}
    sync_to_disk(
        table, after, [file.file_path for file in ManifestReader().data_files(after) if file.file_path not in old]
    )
    return after


def _is_base(table: Table) -> bool:
    return table.metadata.properties.get(ROLE, "base") == "base"


def _marking(table: Table, highest: Mapping[int, int]) -> list[SetPropertiesUpdate]:
    """Returns the update of the complete offsets. Only base tables need it, because only they are read by offset."""
    properties = complete_from_properties(table, highest) if _is_base(table) else {}
    return [SetPropertiesUpdate(updates=properties)] if properties else []


def _highest(each: Iterable[Mapping[int, int]]) -> dict[int, int]:
    found: dict[int, int] = {}
    for offsets in each:
        for partition, offset in offsets.items():
            found[partition] = max(offset, found.get(partition, 0))
    return found
