"""`frazil txlog show` prints what the pipeline did."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

from cyclopts import App, Parameter
from cyclopts.validators import Number

from frazil.cli.terminal.context import GivenContext
from frazil.cli.terminal.log_access import open_log, require_topic
from frazil.cli.terminal.output import Format, print_json, print_table

if TYPE_CHECKING:
    from frazil.pipeline.txlog.entries import Entry
    from frazil.pipeline.txlog.show import EntryLine

app = App(name="txlog")

_MAX_LENGTH = 120
"""A longer text is cut off in the table; JSON has all of it."""


@app.command
def show(
    *,
    topic: Annotated[str | None, Parameter(help="Only what concerns this topic.")] = None,
    last: Annotated[
        int, Parameter(help="How many of the newest entries; 0 shows all.", validator=Number(gte=0))
    ] = 50,
    output: Annotated[Format, Parameter(help="How to print it.")] = "human",
    context: GivenContext,
) -> None:
    """Tell what the pipeline did, oldest first. Works while it runs."""
    from frazil.clock import iso
    from frazil.pipeline.txlog.file import root
    from frazil.pipeline.txlog.show import history, to_data

    config = context.load().config
    data_dir = config.data_dir
    found = history(data_dir, topic, last or None)
    if output == "json":
        print_json([to_data(each) for each in found.entries])
    elif found.entries:
        rows = [(iso(each.entry.time_ms), each.slot, each.entry.number, *_row(each.entry)) for each in found.entries]
        columns = ("time", "slot", "number", "what happened", "topic", "table", "offsets", "files", "snapshot")
        print_table(columns, rows)
    elif found.damage is None:
        if topic is not None:
            with open_log(config) as log:
                require_topic(log, topic)
        of_topic = f" about topic {topic!r}" if topic else ""
        print(f"There is nothing{of_topic} in {root(data_dir.absolute())} yet.")
    if found.damage:
        raise found.damage


def _row(entry: Entry) -> EntryLine:
    from frazil.pipeline.txlog.show import in_words

    row = in_words(entry)
    return row if len(row.what) <= _MAX_LENGTH else row._replace(what=f"{row.what[: _MAX_LENGTH - 1]}…")
