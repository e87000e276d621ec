"""`frazil maintain` runs the maintenance of tables and log now rather than on its schedule."""

from __future__ import annotations

import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Annotated

from cyclopts import App, Parameter

from frazil.cli.terminal.context import Context, GivenContext
from frazil.cli.terminal.output import Format, count, print_json, print_table
from frazil.errors import ConfigError, IcebergError, TableDamaged

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from frazil.config.model import Config
    from frazil.maintain.context import MaintenanceContext
    from frazil.maintain.report import Amounts, OperationReport
    from frazil.maintain.verification import VerificationResult

app = App(name="maintain")

Names = Annotated[str, Parameter(help="Topics or tables; all by default.")]
DryRun = Annotated[bool, Parameter(negative=(), help="Only say what would be done.")]
Output = Annotated[Format, Parameter(help="How to print it.")]

_LEAST_HOURS = 24.0
_MINUTE = 60.0


@app.command
def run(*, context: GivenContext) -> None:
    """Do all of it on its schedule, until SIGTERM or Ctrl-C.

    A pipeline does this too, unless `maintenance.enabled` is false in its settings; run it alone where maintenance
    has a machine of its own.
    """
    from frazil.app.roles import maintenance_alone
    from frazil.cli.role import run_role

    run_role(
        context.load().config, maintenance_alone, lambda url, _: f"Maintenance is starting; health at {url}/health."
    )


@app.command
def compact(*names: Names, dry_run: DryRun = False, output: Output = "human", context: GivenContext) -> None:
    """Join small data files into large ones, where that helps."""
    _maintain(context, ("compact",), names, dry_run, output)


@app.command
def manifests(*names: Names, dry_run: DryRun = False, output: Output = "human", context: GivenContext) -> None:
    """Join small manifests, so that planning a read stays quick."""
    _maintain(context, ("manifests",), names, dry_run, output)


@app.command
def expire(*names: Names, dry_run: DryRun = False, output: Output = "human", context: GivenContext) -> None:
    """Forget old snapshots. Files that only they needed are deleted after the grace time."""
    _maintain(context, ("expire",), names, dry_run, output)


@app.command
def orphans(
    *names: Names,
    dry_run: DryRun = False,
    older_than_hours: Annotated[
        float | None, Parameter(help="Leave younger files alone; at least 24, by default as the settings say.")
    ] = None,
    output: Output = "human",
    context: GivenContext,
) -> None:
    """Delete files of tables that nothing refers to, and names of tables that were never finished."""
    # The comparison is negated so that not-a-number is refused too.
    if older_than_hours is not None and not older_than_hours >= _LEAST_HOURS:
        raise ConfigError(
            f"--older-than-hours: {older_than_hours:g} is too few. A younger file may belong to a commit that is "
            f"under way; use {_LEAST_HOURS:g} or more."
        )
    _maintain(context, ("orphans",), names, dry_run, output, older_than_hours)


@app.command
def retention(*names: Names, dry_run: DryRun = False, output: Output = "human", context: GivenContext) -> None:
    """Drop rows that are past the `retention_days` of their table."""
    _maintain(context, ("retention",), names, dry_run, output)


@app.command
def trim(
    *names: Names,
    dry_run: DryRun = False,
    release: Annotated[
        str | None,
        Parameter(help="Base table of the topic that is gone for good: the log is not kept for it any more."),
    ] = None,
    output: Output = "human",
    context: GivenContext,
) -> None:
    """Delete segments of the log that the base table of their topic has."""
    if release is not None and (len(names) != 1 or dry_run):
        raise ConfigError("--release: name the one topic whose table it was, and leave out --dry-run.")
    _maintain(context, ("trim",), names, dry_run, output, release=release)


@app.command
def migrate(*names: Names, dry_run: DryRun = False, output: Output = "human", context: GivenContext) -> None:
    """Bring tables that an older Frazil made up to date."""
    _maintain(context, ("migrate",), names, dry_run, output)


@app.command
def verify(
    *names: Names,
    quick: Annotated[bool, Parameter(negative=(), help="Read the footers only, not all of each file.")] = False,
    drop_damaged: Annotated[
        bool, Parameter(negative=(), help="Let tables go on without their damaged files, whose rows are lost.")
    ] = False,
    output: Output = "human",
    context: GivenContext,
) -> None:
    """Read all files of tables: which are damaged, and which have no checksums."""
    from frazil.log.topics.schemas import list_topics
    from frazil.maintain.maintained_tables import find_maintained_tables
    from frazil.maintain.verification import verify_table

    config = context.load().config
    with _maintenance_context(config, dry_run=not drop_damaged) as maintenance:
        found = []
        for target in find_maintained_tables(maintenance.lake, config, names, list_topics(maintenance.store)):
            if target.problem is not None:
                raise target.problem
            _say(f"verifying {target.name}")
            table = maintenance.lake.load(target.identifier)
            found.append(verify_table(maintenance, table, quick=quick, drop_damaged=drop_damaged))
    if output == "json":
        print_json([each.as_data() for each in found])
    else:
        _print_verified(found)
    damaged = [f"{each.table}: {name}" for each in found if not each.dropped for name in each.damaged]
    if damaged:
        raise TableDamaged(
            f"{count(len(damaged), 'file is', 'files are')} damaged: {'; '.join(damaged)}. Restore them from a "
            f"backup or another copy of the warehouse, or let the tables go on without their rows: --drop-damaged"
        )


@app.command
def register(
    *,
    metadata: Annotated[
        tuple[str, ...],
        Parameter(help="Metadata file to take for its table, where several may be the last.", consume_multiple=False),
    ] = (),
    dry_run: DryRun = False,
    output: Output = "human",
    context: GivenContext,
) -> None:
    """Find tables in the warehouse that the log remembers and the catalog does not have, and register them there."""
    from frazil.lake.catalog.lake import Lake
    from frazil.lake.tables.registration import plan_registrations
    from frazil.lake.tables.registration import register as register_table
    from frazil.store import open_store

    config = context.load().config
    lake = Lake(config)
    try:
        planned = plan_registrations(lake, open_store(config.store, config.data_dir), metadata)
        if not dry_run:
            for each in planned:
                register_table(lake, each)
    finally:
        lake.close()
    tables = [
        {
            "topic": each.topic,
            "table": ".".join(each.identifier),
            "metadata": each.file.location,
            "offsets": {str(partition): offset for partition, offset in sorted(each.file.offsets.items())},
            "outcome": "would be registered" if dry_run else "registered",
        }
        for each in planned
    ]
    if output == "json":
        print_json(tables)
    elif not tables:
        print(f"The {lake.where} has all tables that the log remembers; there is nothing to register.")
    else:
        print_table(
            ("table", "topic", "outcome", "metadata"),
            [(each["table"], each["topic"], each["outcome"], each["metadata"]) for each in tables],
        )


@app.command(name="all")
def all_(*names: Names, dry_run: DryRun = False, output: Output = "human", context: GivenContext) -> None:
    """Do all of it, in the order that makes sense."""
    from frazil.maintain.all_operations import NAMES

    _maintain(context, NAMES, names, dry_run, output)


def _maintain(
    context: Context,
    wanted: Sequence[str],
    names: Sequence[str],
    dry_run: bool,
    output: Format,
    older_than_hours: float | None = None,
    release: str | None = None,
) -> None:
    from frazil.log.topics.schemas import list_topics
    from frazil.maintain.all_operations import all_operations
    from frazil.maintain.maintained_tables import find_maintained_tables
    from frazil.maintain.operations import run_operation
    from frazil.maintain.trimming.base_tables import release as release_table

    config = context.load().config
    settings = config.maintenance
    if older_than_hours is not None:
        changed = settings.orphans.model_copy(update={"older_than_hours": older_than_hours})
        settings = settings.model_copy(update={"orphans": changed})
    operations = [each for each in all_operations(settings) if each.name in wanted]
    with _maintenance_context(config, dry_run) as maintenance:
        if release is not None:
            release_table(maintenance, names[0], release)
        targets = find_maintained_tables(maintenance.lake, config, names, list_topics(maintenance.store))
        reports = [
            run_operation(maintenance, operation, target, dry_run)
            for operation in operations
            for target in targets
            if operation.applies(target)
        ]
        where = maintenance.lake.where
    if output == "json":
        print_json([report.as_data() for report in reports])
    elif not targets:
        print(f"There are no tables of Frazil's in the {where} yet.")
    else:
        _print(reports)
    failed = [report for report in reports if report.outcome == "failed"]
    if failed:
        first = failed[0]
        raise IcebergError(
            f"{count(len(failed), 'operation')} of {len(reports)} failed. {first.operation} of {first.table}: "
            f"{first.work.note}"
        )


@contextmanager
def _maintenance_context(config: Config, dry_run: bool) -> Iterator[MaintenanceContext]:
    """Yields what operations need. Spark starts when an operation asks for it, and stops at the end."""
    from frazil.clock import World
    from frazil.lake.catalog.lake import Lake
    from frazil.maintain.context import MaintenanceContext
    from frazil.pipeline.txlog.log import TransactionLog
    from frazil.store import open_store

    world = World()
    started: list[SparkSession] = []

    def spark() -> SparkSession:
        from frazil.pipeline.spark.session import start_session

        if not started:
            _say("starting Spark")
            started.append(start_session(config, name="frazil-maintain"))
        return started[0]

    lake = Lake(config)
    txlog = None if dry_run else TransactionLog.open(config.data_dir, config.pipeline.txlog, world)
    try:
        yield MaintenanceContext(
            config=config,
            lake=lake,
            store=open_store(config.store, config.data_dir),
            world=world,
            spark=spark,
            txlog=txlog,
            progress=_say,
        )
    finally:
        if started:
            from frazil.pipeline.spark.session import stop_session

            stop_session()
        if txlog is not None:
            txlog.close()
        lake.close()


def _say(text: str) -> None:
    print(f"frazil: {text} …", file=sys.stderr)


def _print(reports: Sequence[OperationReport]) -> None:
    rows = [
        (
            report.operation,
            report.table,
            report.outcome,
            _change(report, "files"),
            _change(report, "bytes"),
            _change(report, "rows"),
            _change(report, "snapshots"),
            _change(report, "manifests"),
            _duration(report.seconds),
            report.work.note,
        )
        for report in reports
    ]
    columns = ("operation", "table", "outcome", "files", "bytes", "rows", "snapshots", "manifests", "time", "note")
    used = [number for number in range(len(columns)) if number < 3 or any(row[number] for row in rows)]
    print_table([columns[each] for each in used], [[row[each] for each in used] for row in rows])
    for report in reports:
        for item in report.work.items:
            print(f"  {report.operation} {report.table}: {item}")


def _print_verified(found: Sequence[VerificationResult]) -> None:
    columns = ("table", "files", "bytes", "damaged", "only pages", "no checksums")
    rows = [
        (each.table, each.files, f"{each.bytes:,}", len(each.damaged), len(each.only_pages), len(each.without))
        for each in found
    ]
    print_table(columns, rows)
    for each in found:
        for name, problem in each.damaged.items():
            print(f"  {'dropped' if each.dropped else 'damaged'}: {name}: {problem}")
        for name in each.without:
            print(f"  no checksums: {name}")


def _change(report: OperationReport, what: str) -> str:
    before, after, removed = (
        _number(each, what) for each in (report.work.before, report.work.after, report.work.removed)
    )
    if before is not None and after is not None:
        return f"{before:,} → {after:,}" if before != after else f"{before:,}"
    return f"-{removed:,}" if removed else ""


def _number(amounts: Amounts, what: str) -> int | None:
    value = getattr(amounts, what)
    return None if value is None else int(value)


def _duration(seconds: float) -> str:
    return f"{seconds:.1f} s" if seconds < _MINUTE else f"{seconds / _MINUTE:.1f} min"
