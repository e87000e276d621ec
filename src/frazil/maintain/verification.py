"""Verification: finds the files of a table that are damaged, and those without checksums.

Damaged files can be dropped from the table. They are removed as retention removes files, and stay in the storage
until the snapshots that have them expire.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass, field, replace
from typing import Any

from pyiceberg.manifest import DataFile, DataFileContent
from pyiceberg.table import Table

from frazil.errors import CasConflict, TableDamaged
from frazil.lake.catalog.lake import dotted
from frazil.lake.checksums.verification import Verdict
from frazil.lake.checksums.verifying_io import display_path, verify_files
from frazil.lake.commit.offsets import TableState, current_snapshot, name_of
from frazil.maintain.context import MaintenanceContext
from frazil.maintain.manifest_reader import ManifestReader
from frazil.maintain.retention.plan import RetentionPlan
from frazil.maintain.retention.read_progress import bounds_of
from frazil.maintain.retention.retention import drop_files

_TRIES = 10
"""This is how often a change is tried. A mover commits every few seconds, and a change takes a fraction of a
second."""


@dataclass(frozen=True)
class VerificationResult:
    """The result for one table. Files are named by their path below the warehouse."""

    table: str
    files: int
    bytes: int
    damaged: dict[str, str] = field(default_factory=dict)
    """The damaged files, and what is wrong with each."""
    only_pages: list[str] = field(default_factory=list)
    """The files whose pages have checksums and whose footers have none. Spark writes such files."""
    without: list[str] = field(default_factory=list)
    """The files without any checksums."""
    dropped: bool = False

    def as_data(self) -> dict[str, Any]:
        return asdict(self)


def verify_table(
    context: MaintenanceContext, table: Table, *, quick: bool = False, drop_damaged: bool = False
) -> VerificationResult:
    """Reads all files of a table, or only their footers if `quick`. Damaged files are dropped if `drop_damaged`."""
    reader = ManifestReader()
    manifests = reader.manifests(table, [current_snapshot(table)]).values()
    files = [entry.data_file for entry in reader.entries(table, manifests)]
    verdicts = verify_files(table, files, footer_only=quick)
    found = _sorted_out(table, files, verdicts)
    damaged = [file for file, verdict in zip(files, verdicts, strict=True) if verdict.problem is not None]
    if not drop_damaged or not damaged:
        return found
    _drop(context, table, damaged)
    return replace(found, dropped=True)


def _sorted_out(table: Table, files: Sequence[DataFile], verdicts: Sequence[Verdict]) -> VerificationResult:
    names = [display_path(table.metadata.location, file.file_path) for file in files]
    judged = sorted(zip(names, verdicts, strict=True))
    whole = [(name, verdict.coverage) for name, verdict in judged if verdict.problem is None]
    return VerificationResult(
        name_of(table),
        len(files),
        sum(file.file_size_in_bytes for file in files),
        damaged={name: verdict.problem for name, verdict in judged if verdict.problem is not None},
        only_pages=[name for name, coverage in whole if coverage == "pages"],
        without=[name for name, coverage in whole if coverage == "none"],
    )


def _drop(context: MaintenanceContext, table: Table, damaged: Sequence[DataFile]) -> None:
    deletes = [file for file in damaged if file.content != DataFileContent.DATA]
    if deletes:
        # Without the delete file, rows that somebody has deleted would come back.
        raise TableDamaged(
            f"{display_path(table.metadata.location, deletes[0].file_path)} of table {name_of(table)} is damaged. It "
            f"says which rows were deleted, so the table cannot go on without it: restore it from a backup."
        )
    context.progress(
        f"dropping {len(damaged)} damaged file{'s' if len(damaged) != 1 else ''} from {dotted(table.name())}"
    )
    with context.exclusive(table.name()):
        for left in reversed(range(_TRIES)):
            try:
                drop_files(context, table, RetentionPlan(whole=list(damaged)), _highest_by_bounds(table, damaged))
                return
            except CasConflict:
                if not left:
                    raise
                table = context.lake.load(table.name())


def _highest_by_bounds(table: Table, files: Sequence[DataFile]) -> dict[int, int]:
    """Returns the highest offset of each partition that these files may have, by their statistics.

    The files themselves are damaged, so their rows cannot be read.
    """
    ends = TableState.of(table).offsets
    found: dict[int, int] = {}
    for file in files:
        first, last, highest = bounds_of(table, file)
        for partition, end in ends.items():
            if (first is None or first <= partition) and (last is None or partition <= last):
                lost = end - 1 if highest is None else min(highest, end - 1)
                found[partition] = max(lost, found.get(partition, -1))
    return found
