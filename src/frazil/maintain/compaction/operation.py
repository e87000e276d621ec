"""Compaction: merges many small data files of a partition into few large ones, in the table's order.

Tasks of Spark write the new files, and the mover never waits for it: the commit is built on the table as it is then.
What cannot be committed any more is discarded, and the next run begins anew.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace
from functools import partial

from pyiceberg.table import Table

from frazil.config.sections.maintenance import CompactionConfig
from frazil.lake.catalog.lake import Identifier, dotted
from frazil.lake.commit.offsets import current_snapshot
from frazil.lake.write.data_files import target_bytes
from frazil.maintain.compaction.live_files import LiveFiles, table_files
from frazil.maintain.compaction.policy import Limits, SmallFile, choose, next_closing_ms
from frazil.maintain.compaction.spark_rewrite import REASON, rewrite_with_spark
from frazil.maintain.context import MaintenanceContext
from frazil.maintain.maintained_tables import MaintainedTable
from frazil.maintain.manifest_reader import count_files
from frazil.maintain.report import OperationResult
from frazil.maintain.rewrite.replacing import replace_files
from frazil.maintain.rewrite.rewriting import FileGroup
from frazil.maintain.rewrite.tasks import Rewriter, rewrite_in_spark

_BYTES_AT_A_TIME = 1024**3
_GROUPS_AT_A_TIME = 64
"""These two limits bound the work of one commit, so that little is written in vain if it is discarded."""


class Compaction:
    name = "compact"
    any_version = False

    def __init__(self, config: CompactionConfig, rewriter: Rewriter | None = None) -> None:
        """`rewriter` rewrites groups elsewhere than in Spark's tasks."""
        self._config = config
        self._rewriter = rewriter
        self._settled: dict[Identifier, tuple[int, float]] = {}
        """The snapshot of each table at which there was nothing to do, and until when, so that an unchanged table
        costs nothing."""

    def applies(self, target: MaintainedTable) -> bool:
        return True

    def run(self, context: MaintenanceContext, table: Table, dry_run: bool) -> OperationResult:
        snapshot, until_ms = self._settled.get(table.name(), (None, 0))
        if snapshot == current_snapshot(table).snapshot_id and context.now_ms() < until_ms:
            return OperationResult("nothing")
        files = LiveFiles.of(table)
        before = count_files(files.data.values())
        chosen = self._choose(context, table, files)
        if not chosen:
            return OperationResult("nothing", before, before)
        if dry_run:
            fewer = sum(len(group) - 1 for group in chosen)
            after = replace(before, files=(before.files or 0) - fewer)
            note = f"{REASON}; " if files.deletes_by_value else ""
            return OperationResult("would", before, after, note=note + _describe(chosen))
        if files.deletes_by_value:
            context.progress(f"compacting {dotted(table.name())} with Spark: {_describe(chosen)}")
            return rewrite_with_spark(context, table, self._config)
        done = 0
        while chosen:
            portion = _portion(chosen)
            context.progress(f"compacting {dotted(table.name())}: {_describe(portion)}")
            table = self._rewrite(context, table, files, portion)
            done += len(portion)
            files = LiveFiles.of(table)
            chosen = self._choose(context, table, files)
        after = count_files(files.data.values())
        return OperationResult("done", before, after, note=f"{done} group{'s' if done != 1 else ''} of files merged")

    def _choose(self, context: MaintenanceContext, table: Table, files: LiveFiles) -> list[tuple[SmallFile, ...]]:
        settle_ms = int(self._config.settle_seconds * 1000)
        limits = Limits(
            target=target_bytes(table.metadata),
            min_input_files=self._config.min_input_files,
            closed_before_ms=context.now_ms() - settle_ms,
        )
        chosen = choose(files.small, limits)
        if not chosen:
            newest = next_closing_ms(files.small, limits)
            until_ms = math.inf if newest is None else newest + settle_ms
            self._settled[table.name()] = (current_snapshot(table).snapshot_id, until_ms)
        return chosen

    def _rewrite(
        self, context: MaintenanceContext, table: Table, files: LiveFiles, portion: Sequence[Sequence[SmallFile]]
    ) -> Table:
        """Rewrites groups, commits the new files and returns the table."""
        found = table_files(table, [files.data[each.path] for group in portion for each in group])
        groups = [FileGroup(tuple(found[each.path] for each in group)) for group in portion]
        return replace_files(context, table, groups, self._rewriter or partial(rewrite_in_spark, context.spark))


def _portion(chosen: Sequence[Sequence[SmallFile]]) -> list[Sequence[SmallFile]]:
    """Returns the groups for one commit, at least one."""
    taken: list[Sequence[SmallFile]] = []
    total = 0
    for group in chosen:
        total += sum(file.size for file in group)
        if taken and (total > _BYTES_AT_A_TIME or len(taken) == _GROUPS_AT_A_TIME):
            break
        taken.append(group)
    return taken


def _describe(groups: Sequence[Sequence[SmallFile]]) -> str:
    files = sum(len(group) for group in groups)
    size = sum(file.size for group in groups for file in group)
    into = f" into {len(groups)}" if len(groups) > 1 else ""
    return f"{files:,} small files{into}, {size:,} bytes"
