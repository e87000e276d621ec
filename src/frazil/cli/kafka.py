"""`frazil kafka check`."""

from __future__ import annotations

import logging
from typing import Annotated

from cyclopts import App, Parameter

from frazil.cli.context import GivenContext
from frazil.cli.output import Format, count, print_json, print_table

app = App(name="kafka")


@app.command
def check(
    *,
    output: Annotated[Format, Parameter(help="How to print it.")] = "human",
    context: GivenContext,
) -> None:
    """Try brokers, topics, schema registry, catalog and store with the given settings; nothing is consumed."""
    from frazil.doors.kafka.check import check_all

    # The client writes of its own about what the findings say in order.
    logging.getLogger("frazil").addHandler(logging.NullHandler())
    findings = check_all(context.load().config)
    if output == "json":
        print_json(
            [
                {
                    "check": each.what,
                    "ok": each.error is None,
                    "found": each.told,
                    "kind": type(each.error).__name__ if each.error else None,
                    "advice": each.advice,
                }
                for each in findings
            ]
        )
    else:
        columns = ("check", "", "found", "what to do")
        print_table(columns, [(each.what, _verdict(each.error), each.told, each.advice) for each in findings])
    failed = [each.error for each in findings if each.error]
    if failed:
        first = failed[0].again()
        first.args = (f"{len(failed)} of {count(len(findings), 'check')} failed; the first: {failed[0]}",)
        raise first


def _verdict(error: Exception | None) -> str:
    return "failed" if error else "ok"
