"""`frazil log inspect`, `verify` and `repair` show the log, check it and repair it."""

from __future__ import annotations

import dataclasses
import sys
from typing import TYPE_CHECKING, Annotated, Any

from cyclopts import App, Parameter

from frazil.cli.terminal.context import GivenContext
from frazil.cli.terminal.log_access import chosen_partitions, open_log, require_topic, split_name
from frazil.cli.terminal.output import Format, count, print_json, print_table
from frazil.cli.terminal.progress import step_progress
from frazil.errors import ConfigError, Interrupted, LogCorrupted

if TYPE_CHECKING:
    from frazil.log.check.inspection import PartitionInfo
    from frazil.log.check.repair import RepairPlan
    from frazil.log.check.verify import Finding
    from frazil.log.log import Log

app = App(name="log")

Name = Annotated[str | None, Parameter(help="TOPIC or TOPIC/PARTITION; all by default.")]
Output = Annotated[Format, Parameter(help="How to print it.")]


@app.command
def inspect(
    name: Name = None,
    /,
    *,
    frames: Annotated[bool, Parameter(negative=(), help="List the frames of the WAL files.")] = False,
    output: Output = "human",
    context: GivenContext,
) -> None:
    """Show what is on this disk and in the store. Changes nothing, also beside a running writer."""
    from frazil.log.check.inspection import show_partition

    with open_log(context.load().config) as log:
        where = log.store.url
        shown = [
            show_partition(log, topic, partition, every_footer=True)
            for topic, partition in chosen_partitions(log, name)
        ]
    if output == "json":
        print_json([_as_data(each, frames) for each in shown])
        return
    if not shown:
        print(f"There is nothing in the log at {where} yet.")
    for each in shown:
        _print_partition(each, frames)


def _as_data(shown: PartitionInfo, frames: bool) -> dict[str, Any]:
    data = dataclasses.asdict(shown)
    if not frames:
        for file in data["wal_files"]:
            file["frames"] = len(file["frames"])
    return data


def _print_partition(shown: PartitionInfo, frames: bool) -> None:
    held = "being written now" if shown.written_now else "not being written here"
    print(f"{shown.topic}/{shown.partition}  owner {shown.owner or 'nobody'}, {held}")
    print(
        f"  offsets {shown.first_offset} to {shown.next_offset}, sealed up to {shown.sealed_end}, low mark "
        f"{shown.low_mark}"
    )
    print(f"  epochs {', '.join(f'{epoch} from {start}' for epoch, start in shown.epochs) or 'none'}")
    print(f"  remembers {shown.positions['sources']} sources and {shown.positions['producers']} producers")
    if shown.segments:
        print(f"  {count(len(shown.segments), 'segment')}, {shown.segment_bytes:,} bytes")
        rows = [
            (f"  {s.key}", s.first_offset, s.end_offset, f"{s.bytes:,}", s.error or "readable")
            for s in shown.segments
        ]
        print_table(("  segment", "first", "end", "bytes", "state"), rows)
    for file in shown.wal_files:
        print(
            f"  {file.file}: offsets {file.first_offset} to {file.end_offset}, {file.bytes:,} bytes, "
            f"{len(file.frames)} frames, {file.state}"
        )
        if frames:
            rows = [(f"    {each['start']}", *list(each.values())[1:]) for each in file.frames]
            print_table(("    byte", "end", "kind", "offset", "rows"), rows)
    print()


@app.command
def verify(name: Name = None, /, *, output: Output = "human", context: GivenContext) -> None:
    """Check every frame and every segment, and that they join without a gap; also beside a running writer."""
    with open_log(context.load().config) as log:
        where = log.store.url
        partitions = chosen_partitions(log, name)
        findings = _verify(log, partitions)
    problems = [found for found in findings if found.kind == "problem"]
    if output == "json":
        print_json({"partitions": len(partitions), "findings": [found._asdict() for found in findings]})
    else:
        for found in findings:
            byte = "" if found.byte is None else f", byte {found.byte}"
            print(f"{found.kind}: {found.where}{byte}: {found.what}")
    if problems:
        raise LogCorrupted(f"{count(len(problems), 'problem')} in {count(len(partitions), 'partition')}.")
    if output == "human":
        print(f"{count(len(partitions), 'partition')} checked in {where}: clean")


def _verify(log: Log, partitions: list[tuple[str, int]]) -> list[Finding]:
    from frazil.log import layout
    from frazil.log.check.verify import PartitionCheck, TopicCheck
    from frazil.log.claims import node_name

    topics = {topic: TopicCheck(log.store, topic) for topic in dict.fromkeys(topic for topic, _ in partitions)}
    findings: list[Finding] = [found for check in topics.values() for found in check.findings]
    node = node_name(log.config.data_dir, log.config.node, log.world)
    with step_progress("checking") as progress:
        for topic, partition in partitions:
            task = progress.add_task(f"{topic}/{partition}", total=None) if progress else None

            def step(what: str, done: int, total: int, task: Any = task) -> None:
                if progress and task is not None:
                    progress.update(task, description=what, completed=done, total=total)

            directory = layout.wal_directory(log.config.data_dir, topic, partition)
            check = PartitionCheck(log.store, topics[topic], topic, partition, directory, node, log.world, step)
            findings += check.run()
    return findings


@app.command
def repair(
    name: Annotated[str, Parameter(help="TOPIC/PARTITION.")],
    /,
    *,
    yes: Annotated[bool, Parameter(negative=(), help="Do it without asking.")] = False,
    dry_run: Annotated[bool, Parameter(negative=(), help="Only say what would be done.")] = False,
    context: GivenContext,
) -> None:
    """Make a partition whose WAL is damaged, or was overtaken by another writer, work again.

    What is clean goes on, what was there is set aside and never deleted, and what is lost is told.
    """
    from frazil.log.check.inspection import find_schema
    from frazil.log.check.repair import Repair

    topic, partition = split_name(name)
    if partition is None:
        raise ConfigError(f"{name!r}: say which partition, e.g. {name}/0.")
    with open_log(context.load().config) as log:
        require_topic(log, topic)
        with Repair(log.config, log.store, log.world, topic, partition, find_schema(log, topic)) as task:
            plan = task.plan()
            _print_plan(plan, name)
            if plan.action == "nothing" or dry_run:
                return
            _confirm(yes)
            done = task.apply(plan)
    print(f"done; the files that were there are in {done.set_aside}")
    if done.partition != partition:
        print(f"the records are in {topic}/{done.partition} now; `frazil serve` seals them")


def _print_plan(plan: RepairPlan, name: str) -> None:
    if plan.action == "nothing":
        print(f"{name}: nothing to repair: {plan.reason}")
        return
    print(f"{name}: {plan.reason}")
    for damage in plan.damages:
        print(f"  damaged: {damage.path}, bytes {damage.start} to {damage.end}: {damage.why}")
    if plan.salvage is None:
        return
    salvage = plan.salvage
    kept, moved = (sum(found.entry.rows for found in part) for part in (salvage.kept, salvage.moved))
    if plan.action == "salvage":
        print(f"  {kept:,} records after the sealed ones keep their offsets, from {salvage.base} on")
        if moved:
            print(f"  {moved:,} records behind the damage follow them, under new offsets up to {salvage.end}")
    else:
        print(f"  {moved:,} records that are not in the store go to a new partition")
    for lost in salvage.lost:
        print(f"  lost: {lost.rows:,} records, offsets {lost.start} to {lost.end}")
    if not salvage.lost:
        print("  no acknowledged record is lost")
    if plan.action == "salvage" and salvage.new_epoch:
        print(f"  a new epoch begins at offset {salvage.epochs.current_start}, so readers are told")
    print(f"  {count(len(plan.files), 'WAL file')} set aside, not deleted")


def _confirm(yes: bool) -> None:
    if yes:
        return
    if not sys.stdin.isatty():
        raise ConfigError("There is no terminal to ask on: run it again with --yes, or look first with --dry-run.")
    if input("Do it? [y/N] ").strip().lower() not in ("y", "yes"):
        raise Interrupted("nothing was changed")
