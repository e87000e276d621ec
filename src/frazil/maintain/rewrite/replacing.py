"""Rewrites files of a table and commits the new ones in their place."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from pyiceberg.table import Table

from frazil.failpoints import failpoint
from frazil.lake.catalog.lake import dotted
from frazil.lake.commit.attempts import new_attempt
from frazil.lake.commit.cleanup import cleanup_attempt
from frazil.lake.commit.offsets import ROLE
from frazil.lake.commit.proposals import CommitRequest
from frazil.lake.commit.replace import Discarded, Replacement, commit_replacement
from frazil.maintain.context import MaintenanceContext
from frazil.maintain.report import Later
from frazil.maintain.rewrite.rewriting import FileGroup, RewriteJob, Rewritten
from frazil.maintain.rewrite.tasks import Rewriter


def replace_files(
    context: MaintenanceContext, table: Table, groups: Sequence[FileGroup], rewriter: Rewriter
) -> Table:
    """Rewrites groups of files and returns the table with the new ones.

    Raises `Later` if the table has changed so that the new files were discarded.
    """
    attempt = new_attempt(context.now_ms(), context.world.rng)
    files = [file for group in groups for file in group.files]
    requests: list[CommitRequest] = []
    committed = False
    try:
        failpoint("replace.started")
        written = rewriter(RewriteJob.of(table, attempt), groups)
        failpoint("replace.written")
        retaining = any(group.old is not None for group in groups)
        if retaining and sum(file.record_count for file in written.files) == sum(group.rows for group in groups):
            # By their statistics the files may have had old rows, but they have none.
            return table
        replacement = Replacement(
            id=attempt,
            inputs=tuple(each.file for each in files),
            outputs=written.files,
            deletes={each.path: frozenset(path.file_path for path in each.deletes) for each in files if each.deletes},
            table_uuid=table.metadata.table_uuid,
            schema_id=table.metadata.current_schema_id,
            spec_id=table.metadata.default_spec_id,
            lost=_lost(table, groups, written),
        )
        outcome = commit_replacement(
            context.lake,
            context.lake.load(table.name()),
            replacement,
            on_request=requests.append,
            clock=context.world.clock.now_ms,
            rng=context.world.rng,
        )
        failpoint("replace.committed")
        if isinstance(outcome, Discarded):
            raise Later(f"what was written for {dotted(table.name())} was discarded: {outcome.reason}")
        committed = True
        return outcome.table
    finally:
        if not committed and not requests:
            # Nobody was asked to commit the new files, so nobody ever will.
            cleanup_attempt(context.lake, table, attempt, (), ())


def _lost(table: Table, groups: Sequence[FileGroup], written: Rewritten) -> Mapping[int, int] | None:
    """Returns the last offsets of lost rows. Only base tables say them, because only those are read by offset."""
    if all(group.old is None for group in groups):
        return None
    return written.lost if table.metadata.properties.get(ROLE, "base") == "base" else {}
