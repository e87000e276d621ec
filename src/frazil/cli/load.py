"""`frazil load` appends the records of files to a topic."""

from __future__ import annotations

import dataclasses
import sys
from contextlib import ExitStack
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

from cyclopts import Parameter

from frazil.cli.terminal.context import GivenContext
from frazil.cli.terminal.interrupts import Interrupts
from frazil.cli.terminal.output import Format, count, print_json
from frazil.cli.terminal.progress import load_progress
from frazil.errors import ConfigError, Interrupted
from frazil.load.inputs import Format as FileFormat

if TYPE_CHECKING:
    from frazil.load.loader import Loaded


def load(
    topic: str,
    /,
    *files: Annotated[
        str,
        Parameter(
            help="`.jsonl`, `.ndjson`, `.json` (also with `.gz`, `.zst`), `.parquet`, `.arrow`, `.feather`, `.ipc`."
        ),
    ],
    stdin: Annotated[
        bool, Parameter(name=("--stdin", "-"), negative=(), help="Read JSON lines from stdin, after the files.")
    ] = False,
    format: Annotated[FileFormat | None, Parameter(help="The format, whatever the names say.")] = None,
    schema: Annotated[
        Path | None,
        Parameter(help="Types of the columns: YAML or JSON `column: type`, or a Parquet or Arrow file."),
    ] = None,
    skip_bad: Annotated[
        bool, Parameter(negative=(), help="Leave out lines that cannot be read, and say how many.")
    ] = False,
    once: Annotated[
        bool,
        Parameter(
            negative=(),
            help="Append only what an earlier load with --once of a file with the same content has not; remembered "
            "for `log.sources.ttl_seconds`.",
        ),
    ] = False,
    output: Annotated[Format, Parameter(help="How to print the result.")] = "human",
    context: GivenContext,
) -> None:
    """Append the records of files to a topic; a new topic is made with their schema.

    Works beside a running `frazil serve`: the records go to a partition that no other process writes. Nothing is
    appended unless all lines of all files can be read (stdin is appended as it comes).
    """
    from frazil.load.inputs import find_input
    from frazil.load.loader import Loader
    from frazil.load.schema_file import read_schema
    from frazil.log.log import Log
    from frazil.ops.logging import setup_logging

    if not files and not stdin:
        hint = f" {topic!r} was taken as the topic." if Path(topic).suffix or Path(topic).exists() else ""
        raise ConfigError(f"Nothing to load: `frazil load TOPIC FILE…`, or - for standard input.{hint}")
    inputs = [find_input(name, format) for name in (*files, *(["-"] if stdin else []))]
    if once and stdin:
        raise ConfigError("--once needs files: what stdin held cannot be recognised when it comes again.")
    given = read_schema(schema) if schema else None
    config = context.load().config
    setup_logging(config.logging.model_copy(update={"level": "warning"}))
    with Interrupts() as interrupts, load_progress(inputs, interrupts) as watcher, ExitStack() as stack:
        log = Log(config)
        stack.callback(log.close, seal=False)
        loader = Loader(log, topic, inputs, schema=given, skip_bad=skip_bad, remember=once, watcher=watcher)
        try:
            done = loader.run()
        except KeyboardInterrupt:
            raise Interrupted(f"interrupted: {_appended(loader.done)}") from None
        except Exception:
            if loader.done.rows:
                print(f"frazil: before the error, {_appended(loader.done)}", file=sys.stderr)
            raise
    _report(done, output)


def _report(done: Loaded, output: Format) -> None:
    for file in done.files:
        if file.bad_lines:
            print(f"frazil: {file.file}: {file.bad_lines:,} bad lines left out; {file.first_bad}", file=sys.stderr)
    if output == "json":
        print_json(dataclasses.asdict(done))
        return
    known = sum(file.already_stored for file in done.files)
    if known:
        print(f"{known:,} lines or rows were stored by an earlier load")
    print(_appended(done))


def _appended(done: Loaded) -> str:
    if not done.rows:
        return f"no records were appended to {done.topic}"
    size = f"{done.bytes / 1e6:,.1f} MB" if done.bytes >= 1e5 else f"{done.bytes:,} bytes"
    verb = "was" if done.rows == 1 else "were"
    text = (
        f"{count(done.rows, 'row')} ({size}) {verb} appended in {done.seconds:.1f} s to {done.topic}/{done.partition}"
        f", offsets [{done.first_offset}, {done.end_offset}), "
    )
    if done.sealed_end is not None and done.end_offset is not None and done.sealed_end >= done.end_offset:
        return f"{text}all sealed"
    return (
        f"{text}sealed up to {done.sealed_end}. The rest is safe in the WAL and is sealed when `frazil serve` "
        f"runs or the next load comes ({done.not_sealed_because})"
    )
