"""`frazil txlog show`."""

from __future__ import annotations

from typing import Annotated

from cyclopts import App, Parameter
from cyclopts.validators import Number

from frazil.cli.context import GivenContext
from frazil.cli.output import Format, print_json, print_table

app = App(name="txlog")


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
    from frazil.log.world import iso
    from frazil.pipeline.txlog.file import root
    from frazil.pipeline.txlog.show import history, in_words, to_data

    data_dir = context.load().config.data_dir
    found = history(data_dir, topic, last or None)
    if output == "json":
        print_json([to_data(told) for told in found.entries])
    elif found.entries:
        rows = [
            (iso(told.entry.time_ms), told.slot, told.entry.number, *in_words(told.entry)) for told in found.entries
        ]
        columns = ("time", "slot", "number", "what happened", "topic", "table", "offsets", "files", "snapshot")
        print_table(columns, rows)
    elif found.damage is None:
        of_topic = f" about topic {topic!r}" if topic else ""
        print(f"There is nothing{of_topic} in {root(data_dir.absolute())} yet.")
    if found.damage:
        raise found.damage
