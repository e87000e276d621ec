"""Repairs a partition's WAL: clean records are kept, the damaged files are set aside, and lost offsets are reported.

A crash may interrupt every step. Until `damaged-<time>` exists with its `plan.json`, nothing has changed; from
then on the plan is carried out, by this call or by the next one. Meanwhile an empty `repair-unfinished.wal` keeps
writers from opening the partition half repaired.
"""

from __future__ import annotations

import json
import os
import shutil
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Literal

from frazil.clock import World
from frazil.config.model import Config
from frazil.disk.durable import make_folder, sync_file, sync_folder
from frazil.disk.files import DirectoryLock, Watermark, io_error
from frazil.errors import (
    LogCorrupted,
    LogVersionUnsupported,
    PartitionLocked,
    PartitionTaken,
    SegmentMissing,
    TopicNotFound,
)
from frazil.log import layout
from frazil.log.check.salvage import Salvage, chain_at, salvage_elsewhere, salvage_in_place, write
from frazil.log.check.survey import Damage, FindSchema, WalSurvey, survey
from frazil.log.claims import claim, node_name, owner
from frazil.log.segments.index import SegmentIndex
from frazil.log.topics.schemas import list_partitions
from frazil.log.wal.recovery import recover, wal_files
from frazil.log.writer.options import WriterOptions
from frazil.log.writer.starting import start_from_wal
from frazil.store import ObjectStore

UNFINISHED = "repair-unfinished.wal"
DAMAGED = "damaged-"
_PREPARING = "preparing-"
_PLAN = "plan.json"
_REPORT = "report.json"
_SALVAGED = "salvaged.wal"


@dataclass(frozen=True)
class RepairPlan:
    """The steps that a repair is going to take."""

    action: Literal["nothing", "salvage", "move", "finish", "forget"]
    reason: str
    damages: list[Damage] = field(default_factory=list)
    salvage: Salvage | None = None
    files: list[Path] = field(default_factory=list)
    """The WAL files that are set aside."""


@dataclass(frozen=True)
class RepairResult:
    """The result of a repair."""

    set_aside: Path
    partition: int
    """The partition in which the records are now."""


class Repair:
    """Holds the partition's lock from when it is entered until it is left."""

    def __init__(
        self, config: Config, store: ObjectStore, world: World, topic: str, partition: int, find_schema: FindSchema
    ) -> None:
        self._config = config
        self._store = store
        self._world = world
        self._topic = layout.check_topic(topic)
        self._partition = partition
        self._where = f"{topic}/{partition}"
        self._find_schema = find_schema
        self._directory = layout.wal_directory(config.data_dir, topic, partition)
        self._options = WriterOptions.of(config.log, config.topic(topic))
        self._index = SegmentIndex(store, topic, partition)

    def __enter__(self) -> Repair:
        if not self._directory.is_dir():
            raise TopicNotFound(
                f"{self._where} has no WAL in {self._config.data_dir}; there is nothing to repair here."
            )
        try:
            self._lock = DirectoryLock(self._directory)
        except PartitionLocked as error:
            raise PartitionLocked(f"{self._where} is being written, so it cannot be repaired: {error}") from None
        except OSError as error:
            raise io_error(error, "Locking", self._directory) from error
        return self

    def __exit__(self, *_: object) -> None:
        self._lock.release()

    # --- what is to be done --------------------------------------------------------------------------------

    def plan(self) -> RepairPlan:
        """Find out what is wrong. Nothing is changed."""
        if self._planned():
            return RepairPlan("finish", "an earlier repair was cut off; it is carried on where it stopped")
        wal = survey(self._directory, self._find_schema)
        if not wal.files:
            self._index.refresh()
            sealed = self._index.sealed_end()
            if wal.acknowledged <= sealed:
                return RepairPlan("nothing", "there are no WAL files")
            return RepairPlan(
                "forget",
                f"the WAL files are gone: {wal.acknowledged - sealed:,} acknowledged records, offsets {sealed} to "
                f"{wal.acknowledged}, are lost; a new epoch begins at {sealed}, so readers are told",
            )
        if wal.newer:
            raise LogVersionUnsupported(wal.newer)
        self._index.refresh()
        flaw, foreign = self._diagnose(wal)
        limits = self._config.log.sources
        files = wal_files(self._directory)
        damages = [*wal.damages, *([wal.files[-1].torn] if flaw and wal.files[-1].torn else [])]
        if foreign:
            salvage = salvage_elsewhere(wal, self._sealed_by_us(wal), self._world, limits)
            return RepairPlan("move", foreign, damages, salvage, files)
        if flaw:
            salvage = salvage_in_place(wal, self._index.newest(), self._index.low, self._world, limits)
            return RepairPlan("salvage", flaw, damages, salvage, files)
        if torn := wal.files[-1].torn:
            return RepairPlan(
                "nothing",
                f"the end of {torn.path.name} was torn by a crash at byte {torn.start}, in a write that nobody was "
                f"told of; the next start cuts it off",
            )
        return RepairPlan("nothing", "the WAL is clean and joins its segments")

    def _diagnose(self, wal: WalSurvey) -> tuple[str | None, str | None]:
        """Return what is damaged, and why the WAL cannot go on in this partition."""
        node = node_name(self._config.data_dir, self._config.node, self._world)
        claimed = owner(self._store, self._topic, self._partition)
        foreign = None
        if claimed not in (None, node):
            foreign = f"{self._where} belongs to node {claimed}, not to this one ({node})"
        try:
            recovered = recover(self._directory, self._world.boot_id(), wal.acknowledged)
        except LogCorrupted as error:
            return str(error), foreign or self._stranger(wal)
        assert recovered
        try:
            start_from_wal(recovered, self._index, self._world, self._config.log.sources, self._where)
        except (PartitionTaken, SegmentMissing) as error:
            foreign = foreign or str(error)
        return None, foreign

    def _stranger(self, wal: WalSurvey) -> str | None:
        """Return why a damaged WAL does not belong to the log in the store, as far as that can be seen."""
        newest = self._index.newest()
        end = newest.end if newest else self._index.low
        starts = [int(path.stem) for path in wal_files(self._directory) if path.stem.isdigit()]
        if starts and min(starts) > end:
            return f"the WAL begins at offset {min(starts)}, but the store has segments up to {end} only"
        if newest is None:
            return None
        taken = f"the store has records up to offset {end} by writer {newest.writer}, which this WAL does not have"
        chain = chain_at(wal, end)
        if chain is not None:
            return None if chain == newest.chain else taken
        if any(found.entry.offset < end < found.entry.end for found in wal.records):
            return taken
        headers = wal.headers
        ours = {name for header in headers for name in (header.writer, *header.former_writers)}
        at_border = any(header.epochs.current_start == end for header in headers)
        return taken if ours and newest.writer not in ours and not at_border else None

    def _sealed_by_us(self, wal: WalSurvey) -> int:
        """Return the offset up to which the WAL's records are certainly in segments of its own."""
        ours = {name for header in wal.headers for name in (header.writer, *header.former_writers)}
        end = max((found.entry.end for found in wal.records), default=0)
        for first in reversed(self._index.firsts):
            segment = self._index.footer(first)
            chain = chain_at(wal, segment.end)
            unknown = chain is None and wal.damages and segment.end <= end
            if segment.writer in ours and (chain == segment.chain or unknown):
                return segment.end
        return 0

    # --- doing it ------------------------------------------------------------------------------------------

    def apply(self, plan: RepairPlan) -> RepairResult:
        if plan.action == "forget":
            _set_watermark(self._directory, self._index.sealed_end())
            return RepairResult(self._directory, self._partition)
        if plan.action != "finish":
            self._prepare(plan)
        done: RepairResult | None = None
        for folder in self._planned():
            done = self._carry_out(folder)
        assert done
        return done

    def _planned(self) -> list[Path]:
        return sorted(path.parent for path in self._directory.glob(f"{DAMAGED}*/{_PLAN}"))

    def _prepare(self, plan: RepairPlan) -> None:
        """Write everything that is needed into a folder, which becomes the plan when it gets its name."""
        assert plan.salvage
        for leftover in self._directory.glob(f"{_PREPARING}*"):
            # It has only links to files that are still in place, and a copy of their records.
            shutil.rmtree(leftover)
        now = datetime.fromtimestamp(self._world.clock.now_ms() / 1000, UTC)
        stamp = now.strftime("%Y%m%dT%H%M%S.%f")[:-3]
        folder = self._directory / f"{_PREPARING}{stamp}"
        folder.mkdir()
        for path in plan.files:
            os.link(path, folder / path.name)
        if plan.action == "salvage" or plan.salvage.rows:
            write(plan.salvage, folder / _SALVAGED, self._options.sync, self._world)
        _write_json(folder / _PLAN, self._described(plan))
        sync_folder(folder)
        folder.rename(self._directory / f"{DAMAGED}{stamp}")
        sync_folder(self._directory)

    def _described(self, plan: RepairPlan) -> dict[str, Any]:
        assert plan.salvage
        return {
            "action": plan.action,
            "moved_to": self._partition,
            "topic": self._topic,
            "partition": self._partition,
            "reason": plan.reason,
            "files": [path.name for path in plan.files],
            "first_offset": plan.salvage.base,
            "end_offset": plan.salvage.end,
            "damages": [{"file": d.path.name, "start": d.start, "end": d.end, "why": d.why} for d in plan.damages],
            "lost_offsets": plan.salvage.lost,
        }

    def _carry_out(self, folder: Path) -> RepairResult:
        """Carry a plan out. Each step leaves alone what an earlier attempt has done."""
        plan = json.loads((folder / _PLAN).read_bytes())
        guard = self._directory / UNFINISHED
        guard.touch()
        sync_folder(self._directory)
        for name in plan["files"]:
            path = self._directory / name
            if path.exists() and path.samefile(folder / name):
                path.unlink()
        sync_folder(self._directory)
        if (folder / _SALVAGED).exists():
            if plan["action"] == "move":
                self._install_elsewhere(folder, plan)
            else:
                _install(folder, self._directory, plan)
        if plan["action"] == "move":
            # The records that were acknowledged here are in the other partition now.
            _set_watermark(self._directory, 0)
        guard.unlink()
        sync_folder(self._directory)
        (folder / _PLAN).rename(folder / _REPORT)
        sync_folder(folder)
        return RepairResult(folder, plan["moved_to"])

    def _install_elsewhere(self, folder: Path, plan: dict[str, Any]) -> None:
        """Install the salvaged file in a new partition, which is claimed for it. A second try takes the same one."""
        node = node_name(self._config.data_dir, self._config.node, self._world)
        partition = plan["moved_to"]
        if partition == self._partition:
            partition = max((*list_partitions(self._store, self._topic), self._partition)) + 1
        while True:
            directory = layout.wal_directory(self._config.data_dir, self._topic, partition)
            make_folder(directory)
            try:
                with DirectoryLock(directory):
                    if not wal_files(directory) and claim(self._store, self._topic, partition, node, self._world):
                        plan["moved_to"] = partition
                        _write_json(folder / _PLAN, plan)
                        _install(folder, directory, plan)
                        return
            except PartitionLocked:
                pass
            partition += 1


def _install(folder: Path, directory: Path, plan: dict[str, Any]) -> None:
    """Install the salvaged file. The watermark is set first: with it and without files nobody opens the partition."""
    _set_watermark(directory, plan["end_offset"])
    (folder / _SALVAGED).rename(directory / f"{plan['first_offset']:020d}.wal")
    sync_folder(directory)
    sync_folder(folder)


def _set_watermark(directory: Path, offset: int) -> None:
    watermark = Watermark(directory, writable=True)
    watermark.offset = offset
    watermark.close()
    descriptor = os.open(directory / "watermark", os.O_RDWR)
    try:
        sync_file(descriptor)
    finally:
        os.close(descriptor)


def _write_json(path: Path, data: dict[str, Any]) -> None:
    draft = path.with_suffix(".new")
    with draft.open("w") as file:
        json.dump(data, file, indent=1)
        file.flush()
        sync_file(file.fileno())
    draft.rename(path)
    sync_folder(path.parent)
