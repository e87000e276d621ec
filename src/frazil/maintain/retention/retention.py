"""Retention: rows past the limit of their table leave it, once all who need them have read them.

Files that hold nothing else are dropped by a change of metadata. A file that also holds younger rows is written again
without the old ones, which is Spark's work; it waits until its oldest row is overdue by a while, so that a file is
not written again at every run as time goes by.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from pyiceberg.manifest import DataFile
from pyiceberg.table import Table
from pyiceberg.table.update import SetPropertiesUpdate

from frazil.failpoints import failpoint
from frazil.lake.catalog.calls import calling
from frazil.lake.catalog.lake import Identifier, dotted
from frazil.lake.checksums.damage import check_files
from frazil.lake.commit.completeness import marks
from frazil.lake.commit.offsets import ROLE, TOPIC, named
from frazil.lake.pyiceberg_internals import write_deletion
from frazil.log.schema.columns import OFFSET, PARTITION
from frazil.log.topics.generations import creation
from frazil.maintain.changes import change
from frazil.maintain.contents import Contents, amounts
from frazil.maintain.report import Work
from frazil.maintain.retention.by_offset import plan_by_offset
from frazil.maintain.retention.by_time import plan_by_time
from frazil.maintain.retention.cuts import Reaches
from frazil.maintain.retention.holds import highest_offsets
from frazil.maintain.retention.limits import Limits, limits_of
from frazil.maintain.retention.plan import Plan
from frazil.maintain.targets import Target
from frazil.maintain.workshop import Workshop


class Retention:
    name = "retention"
    any_version = False

    def __init__(self) -> None:
        self._reaches: dict[Identifier, Reaches] = {}
        """What was read of the files of tables with messages, for the next run."""

    def applies(self, target: Target) -> bool:
        return True

    def run(self, shop: Workshop, table: Table, dry_run: bool) -> Work:
        limits = limits_of(table, shop.config, shop.now_ms())
        if limits is None:
            return Work("nothing")
        files = Contents().data_files(table)
        before = amounts(files)
        plan = self._plan(shop, table, files, limits)
        if not plan and not plan.held:
            return Work("nothing", before, before)
        note = str(limits.bounds)
        if plan.held:
            note += f"; {plan.held} files with such rows stay until they have been read by {plan.waits}"
        if not plan:
            return Work("skipped", before, before, note)
        if dry_run:
            dropped = {file.file_path for file in plan.whole}
            after = amounts(file for file in files if file.file_path not in dropped)
            rewritten = f"; {len(plan.mixed)} files are written again without them" if plan.mixed else ""
            return Work("would", before, after, note + rewritten, items=tuple(sorted(dropped)))
        first = table.metadata.current_snapshot_id
        with shop.turn(table.name()):
            if plan.whole:
                table = drop_files(shop, table, plan)
            if plan.mixed:
                table = _delete_rows(shop, table, plan)
        done = table.metadata.current_snapshot_id != first
        return Work("done" if done else "nothing", before, amounts(Contents().data_files(table)), note)

    def _plan(self, shop: Workshop, table: Table, files: list[DataFile], limits: Limits) -> Plan:
        if not _has_messages(shop, table):
            return plan_by_time(shop, table, files, limits)
        known = self._reaches.get(table.name(), {})
        # Those of files that are there no more are let go of.
        known = self._reaches[table.name()] = {
            path: known[path] for file in files if (path := file.file_path) in known
        }
        return plan_by_offset(shop, table, files, limits, known)


def _has_messages(shop: Workshop, table: Table) -> bool:
    """Whether somebody may follow the table by offsets, subscriptions above all."""
    return _is_base(table) and creation(shop.store, table.metadata.properties[TOPIC]) is not None


def drop_files(shop: Workshop, table: Table, plan: Plan, highest: Mapping[int, int] | None = None) -> Table:
    """The table without these files. `highest` are the last offsets that it loses, where the files cannot tell."""
    with calling(f"Writing manifests of table {named(table)}"):
        updates = write_deletion(table, plan.manifests, plan.whole)
        if highest is None:
            highest = _highest(highest_offsets(table, file) for file in plan.whole) if _is_base(table) else {}
    return change(shop.lake, table, [*updates, *_marking(table, highest)])


def _delete_rows(shop: Workshop, table: Table, plan: Plan) -> Table:
    from frazil.maintain.spark_actions import asking_spark, settle, sql_name

    identifier = table.name()
    check_files(table, plan.mixed)
    shop.say(f"deleting old rows of {dotted(identifier)}")
    name = sql_name(shop.config, identifier)
    if table.metadata.properties.get(ROLE, "base") != "derived":
        with asking_spark("Looking for old rows of", identifier):
            query = f"SELECT {PARTITION}, max({OFFSET}) FROM {name} WHERE {plan.where} GROUP BY 1"
            rows = shop.spark().sql(query).collect()
        if not rows:
            return table
        # Before the rows go: who is killed in between has said too much, never too little.
        if updates := _marking(table, {row[0]: row[1] for row in rows if row[0] is not None}):
            table = change(shop.lake, table, updates)
        failpoint("retention.marked")
    with asking_spark("Deleting old rows of", identifier):
        shop.spark().sql(f"DELETE FROM {name} WHERE {plan.where}")
    after = shop.lake.load(identifier)
    old = {file.file_path for file in Contents().data_files(table)}
    settle(table, after, [file.file_path for file in Contents().data_files(after) if file.file_path not in old])
    return after


def _is_base(table: Table) -> bool:
    return table.metadata.properties.get(ROLE, "base") == "base"


def _marking(table: Table, highest: Mapping[int, int]) -> list[SetPropertiesUpdate]:
    """Those who follow a topic read its base table by offsets, and nobody any other."""
    properties = marks(table, highest) if _is_base(table) else {}
    return [SetPropertiesUpdate(updates=properties)] if properties else []


def _highest(each: Iterable[Mapping[int, int]]) -> dict[int, int]:
    found: dict[int, int] = {}
    for offsets in each:
        for partition, offset in offsets.items():
            found[partition] = max(offset, found.get(partition, 0))
    return found
