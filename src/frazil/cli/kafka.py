"""`frazil kafka check` tries everything that the Kafka door needs."""

from __future__ import annotations

import logging
from collections.abc import Iterator
from typing import TYPE_CHECKING, Annotated

from cyclopts import App, Parameter

from frazil.cli.terminal.context import GivenContext
from frazil.cli.terminal.output import Format, count, print_json, print_table

if TYPE_CHECKING:
    from frazil.doors.kafka.check import Finding

app = App(name="kafka")


@app.command
def check(
    *,
    output: Annotated[Format, Parameter(help="How to print it.")] = "human",
    context: GivenContext,
) -> None:
    """Try brokers, topics, schema registry, catalog and store with the given settings; nothing is consumed."""
    from frazil.doors.kafka.check import check_all

    # The Kafka client logs what the findings say in order.
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
        print_table(("check", "", "found"), [row for each in findings for row in _rows(each)])
    failed = [each for each in findings if each.error]
    if failed and failed[0].error:
        first = failed[0].error.again()
        names = ", ".join(each.what for each in failed)
        first.args = (f"{len(failed)} of {count(len(findings), 'check')} failed: {names}.",)
        raise first


def _rows(finding: Finding) -> Iterator[tuple[str, str, str]]:
    """Yields a row with the finding and, below it, one with the advice."""
    yield finding.what, "failed" if finding.error else "ok", finding.told
    if finding.advice:
        yield "", "", f"→ {finding.advice}"
