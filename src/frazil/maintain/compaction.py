"""Compaction: rewrites many small data files into few large ones, with Spark's `rewrite_data_files`.

This module chooses the partitions by the file sizes in the manifests, so that Spark is not called in vain and no file
is rewritten for ever: Spark itself would rewrite two files of two thirds of the target size again and again. A
partition is chosen only if its small files become at most half as many, so work ends after a few rounds.
"""

from __future__ import annotations

import math
from collections import Counter, defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any
from uuid import UUID

from pyiceberg.manifest import DataFile, DataFileContent
from pyiceberg.partitioning import PartitionField
from pyiceberg.table import Table
from pyiceberg.transforms import BucketTransform, TruncateTransform, VoidTransform

from frazil.config.sections.maintenance import CompactionConfig
from frazil.lake.catalog.lake import Identifier, dotted
from frazil.lake.checksums.verifying_io import check_files
from frazil.lake.commit.offsets import current_snapshot
from frazil.maintain.context import MaintenanceContext
from frazil.maintain.maintained_tables import MaintainedTable
from frazil.maintain.manifest_reader import ManifestReader, count_files
from frazil.maintain.report import OperationResult

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

SMALL = 0.75
"""A file below this part of the target size is small. It is Spark's own limit."""
_SPILL = 1.1
"""A file may be larger than the target by this factor, instead of two files. It is Spark's own limit, too."""
_DEFAULT_TARGET = 512 * 1024 * 1024
_BYTES_AT_A_TIME = 16 * 1024**3
_PARTITIONS_AT_A_TIME = 64
"""These two limits bound the work of one commit. The mover can commit between two of them."""
_ROUNDS = 3
"""This is how often one run rewrites the same partition, because sorted rows may need less space than expected."""

Key = tuple[object, ...]


@dataclass(frozen=True)
class SmallFiles:
    """The small files of one partition."""

    key: Key
    sizes: tuple[int, ...]

    def expected(self, target: int) -> int:
        """Returns how many files they become."""
        return expected_files(sum(self.sizes), target)


def expected_files(total: int, target: int) -> int:
    if total <= target:
        return 1
    fewer = total // target
    return (
        fewer if total / fewer < _SPILL * target and total % target <= SMALL * target else math.ceil(total / target)
    )


def worth_it(group: SmallFiles, target: int, min_input_files: int) -> bool:
    count = len(group.sizes)
    return count >= max(2, min_input_files) and group.expected(target) <= count / 2


def small_files(files: Iterable[DataFile], spec_id: int, target: int) -> list[SmallFiles]:
    """Groups small files by partition. Files of an older partition spec are left out."""
    groups: defaultdict[Key, list[int]] = defaultdict(list)
    for file in files:
        if is_small(file, spec_id, target):
            groups[key_of(file)].append(file.file_size_in_bytes)
    return [SmallFiles(key, tuple(sizes)) for key, sizes in groups.items()]


def is_small(file: DataFile, spec_id: int, target: int) -> bool:
    ours = file.spec_id == spec_id and file.content == DataFileContent.DATA
    return ours and file.file_size_in_bytes < SMALL * target


def key_of(file: DataFile) -> Key:
    return tuple(file.partition[number] for number in range(len(file.partition)))


def target_size(table: Table) -> int:
    return int(table.metadata.properties.get("write.target-file-size-bytes", _DEFAULT_TARGET))


class Compaction:
    name = "compact"
    any_version = False

    def __init__(self, config: CompactionConfig) -> None:
        self._config = config
        self._settled: dict[Identifier, int] = {}
        """The snapshot of each table at which there was nothing to do, so that an unchanged table costs nothing."""

    def applies(self, target: MaintainedTable) -> bool:
        return True

    def run(self, context: MaintenanceContext, table: Table, dry_run: bool) -> OperationResult:
        now = current_snapshot(table).snapshot_id
        if self._settled.get(table.name()) == now:
            return OperationResult("nothing")
        target = target_size(table)
        files = ManifestReader().data_files(table)
        before = count_files(files)
        chosen, _ = self._plan(table, files, target, Counter())
        if not chosen:
            self._settled[table.name()] = now
            return OperationResult("nothing", before, before)
        if dry_run:
            fewer = sum(len(group.sizes) - group.expected(target) for group in chosen)
            after = replace(before, files=(before.files or 0) - fewer)
            return OperationResult("would", before, after, note=_describe(chosen))
        done, tried = 0, Counter[Key]()
        while True:
            chosen, others = self._plan(table, files, target, tried)
            if not chosen:
                break
            portion = _portion(chosen)
            done += len(portion)
            tried.update(group.key for group in portion)
            context.progress(f"compacting {dotted(table.name())}: {_describe(portion)}")
            # Without a filter Spark would also rewrite partitions that were not chosen.
            narrow = len(portion) < len(chosen) or any(len(group.sizes) > 1 for group in others)
            table, files = self._rewrite(context, table, files, [group.key for group in portion], narrow, target)
        after = count_files(files)
        return OperationResult("done", before, after, note=f"{done} partition{'s' if done != 1 else ''} rewritten")

    def _plan(
        self, table: Table, files: Sequence[DataFile], target: int, tried: Counter[Key]
    ) -> tuple[list[SmallFiles], list[SmallFiles]]:
        """Returns the partitions to rewrite, and the others that have small files."""
        groups = small_files(files, table.metadata.default_spec_id, target)
        chosen = [
            group
            for group in groups
            if worth_it(group, target, self._config.min_input_files) and tried[group.key] < _ROUNDS
        ]
        return chosen, [group for group in groups if group not in chosen]

    def _rewrite(
        self,
        context: MaintenanceContext,
        table: Table,
        files: Sequence[DataFile],
        keys: Sequence[Key],
        narrow: bool,
        target: int,
    ) -> tuple[Table, list[DataFile]]:
        """Rewrites partitions and returns the table and its files. `narrow` keeps Spark from other partitions."""
        from frazil.maintain.spark_actions import actions, java_table, sync_to_disk, translating_errors

        spec_id = table.metadata.default_spec_id
        checked = [file for file in files if is_small(file, spec_id, target) and key_of(file) in keys]
        check_files(table, checked)
        spark = context.spark()
        identifier = table.name()
        with context.exclusive(identifier), translating_errors("Compacting", identifier):
            action = actions(spark).rewriteDataFiles(java_table(spark, context.config, identifier))
            ordered = bool(table.sort_order().fields) and self._config.strategy != "binpack"
            action = action.sort() if ordered else action.binPack()
            if narrow:
                action = action.filter(_filter(spark, table, keys))
            options = {
                "target-file-size-bytes": target,
                "min-file-size-bytes": int(SMALL * target),
                "min-input-files": max(2, self._config.min_input_files),
            }
            for name, value in options.items():
                action = action.option(name, str(value))
            action.execute()
        after = context.lake.load(identifier)
        now = ManifestReader().data_files(after)
        old = {file.file_path for file in files}
        sync_to_disk(table, after, [file.file_path for file in now if file.file_path not in old])
        left = {file.file_path for file in (*now, *checked)}
        # Spark also rewrites files of other sizes if many of their rows were deleted.
        check_files(after, [file for file in files if file.file_path not in left])
        return after, now


def _portion(chosen: Sequence[SmallFiles]) -> list[SmallFiles]:
    """Returns the partitions for one commit, at least one. Those with the most files come first."""
    taken: list[SmallFiles] = []
    total = 0
    for group in sorted(chosen, key=lambda each: len(each.sizes), reverse=True):
        total += sum(group.sizes)
        if taken and (total > _BYTES_AT_A_TIME or len(taken) == _PARTITIONS_AT_A_TIME):
            break
        taken.append(group)
    return taken


def _describe(groups: Sequence[SmallFiles]) -> str:
    files = sum(len(group.sizes) for group in groups)
    size = sum(sum(group.sizes) for group in groups)
    places = f" in {len(groups)} partitions" if len(groups) > 1 else ""
    return f"{files:,} small files{places}, {size:,} bytes"


def _filter(spark: SparkSession, table: Table, keys: Sequence[Key]) -> Any:
    """Returns an expression of Iceberg's Java library that selects the files of these partitions."""
    from frazil.maintain.spark_actions import expressions

    java = expressions(spark)
    fields = table.spec().fields
    wanted = java.alwaysFalse()
    for key in keys:
        each = java.alwaysTrue()
        for field, value in zip(fields, key, strict=True):
            if not isinstance(field.transform, VoidTransform):
                each = getattr(java, "and")(each, _equals(java, table, field, value))
        wanted = getattr(java, "or")(wanted, each)
    return wanted


def _equals(java: Any, table: Table, field: PartitionField, value: object) -> Any:
    column = table.schema().find_column_name(field.source_id)
    match field.transform:
        case BucketTransform(num_buckets=number):
            term = java.bucket(column, number)
        case TruncateTransform(width=width):
            term = java.truncate(column, width)
        case other:
            named = {"year": java.year, "month": java.month, "day": java.day, "hour": java.hour}
            term = named.get(str(other), java.ref)(column)
    if value is None:
        return java.isNull(term)
    if isinstance(value, float) and math.isnan(value):
        return java.isNaN(term)
    return java.equal(term, str(value) if isinstance(value, UUID) else value)
