"""`frazil logs` prints log lines that a query in LogQL finds, and can follow them."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterable, Iterator
from contextlib import closing
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Annotated, Any, Literal

from cyclopts import Parameter
from cyclopts.validators import Number

from frazil.cli.terminal.address import address_of, default_url
from frazil.cli.terminal.context import GivenContext
from frazil.cli.terminal.printable import printable
from frazil.errors import HealthCheckFailed

if TYPE_CHECKING:
    from frazil.query.logql.client import LokiClient

Output = Literal["human", "json", "raw"]
Line = tuple[int, str, dict[str, str]]
"""Is a line with its time before it and its labels behind it."""

_LEVEL, _SERVICE = "detected_level", "service_name"
_COLORS = {
    "trace": "\033[2m",
    "debug": "\033[36m",
    "info": "\033[32m",
    "warn": "\033[33m",
    "error": "\033[31m",
    "critical": "\033[1;31m",
    "fatal": "\033[1;31m",
}
_PLAIN = "\033[0m"


def logs(
    query: str,
    /,
    *,
    since: Annotated[str, Parameter(help="How far to look back: `15m`, `1h`, `7d`.")] = "1h",
    limit: Annotated[int, Parameter(help="Print the newest so many lines.", validator=Number(gte=1))] = 1000,
    follow: Annotated[
        bool, Parameter(name=("--follow", "-f"), negative=(), help="Go on with what comes, until Ctrl-C.")
    ] = False,
    labels: Annotated[bool, Parameter(negative=(), help="Print all labels of each line.")] = False,
    tenant: Annotated[str | None, Parameter(help="Whose lines; by default those of `default`.")] = None,
    url: Annotated[
        str | None, Parameter(help="Address of Loki's API; by default that of the `loki` settings.")
    ] = None,
    output: Annotated[
        Output, Parameter(help="How to print them; `json` has one in each line, `raw` only the lines themselves.")
    ] = "human",
    context: GivenContext,
) -> None:
    """Print log lines, the oldest first: `frazil logs '{service_name="shop"} |= "late"'`.

    The query is in LogQL. One that counts lines prints samples: `sum by (level) (count_over_time({app="shop"}[1h]))`.
    """
    from frazil.query.logql.client import LokiClient

    address = address_of(url or default_url(context.load().config.loki, "loki.port"))
    with closing(LokiClient(address, tenant)) as client:
        given = {"query": query, "since": since, "limit": limit}
        if follow:
            _follow(client, query, given, output, labels)
            return
        found = client.lines(given)
        if found["resultType"] != "streams":
            _print_samples(client.samples({"query": query})["result"], output)
            return
        lines = sorted(_lines(found["result"]), key=lambda line: line[0])
        _print(lines, output, labels)


def _follow(client: LokiClient, query: str, given: dict[str, object], output: Output, labels: bool) -> None:
    # What was stored already comes in the first frame. Its start is told as a time.
    start = {"start": _start(str(given["since"])), "limit": given["limit"], "query": query}
    for frame in client.frames(start):
        if dropped := frame.get("dropped_entries"):
            print(f"frazil: {len(dropped):,} lines or more were left out, because too many came", file=sys.stderr)
        _print(_lines(frame["streams"]), output, labels)
        sys.stdout.flush()
    raise HealthCheckFailed("the server has ended the connection; run the command again")


def _start(since: str) -> int:
    import time

    from frazil.errors import ConfigError
    from frazil.query.logql.go_numbers import parse_prometheus_duration

    try:
        return time.time_ns() - parse_prometheus_duration(since)
    except ValueError as error:
        raise ConfigError(f"--since: {error}; it looks like 15m, 1h or 7d") from error


def _lines(streams: Iterable[dict[str, Any]]) -> Iterator[Line]:
    for stream in streams:
        for time_ns, line in stream["values"]:
            yield int(time_ns), line, stream["stream"]


def _print(lines: Iterable[Line], output: Output, labels: bool) -> None:
    colored = sys.stdout.isatty()
    for time_ns, line, own in lines:
        match output:
            case "json":
                print(json.dumps({"timestamp": _time(time_ns), "line": line, "labels": own}, ensure_ascii=False))
            case "raw":
                print(line)
            case "human":
                print(_human(time_ns, line, own, colored, labels))


def _human(time_ns: int, line: str, own: dict[str, str], colored: bool, labels: bool) -> str:
    level = own.get(_LEVEL, "")
    shown = f"{printable(level):<8}"
    if colored:
        shown = f"{_COLORS.get(level, '')}{shown}{_PLAIN}"
    parts = [_time(time_ns)[:23].replace("T", " "), shown, printable(own.get(_SERVICE, "")), printable(line)]
    if labels:
        parts.append("{" + ", ".join(f"{name}={printable(json.dumps(text))}" for name, text in own.items()) + "}")
    return "  ".join(parts)


def _time(time_ns: int) -> str:
    """Returns the time as RFC 3339 in UTC, with nanoseconds."""
    seconds, rest = divmod(time_ns, 1_000_000_000)
    return f"{datetime.fromtimestamp(seconds, UTC):%Y-%m-%dT%H:%M:%S}.{rest:09d}Z"


def _print_samples(result: Any, output: Output) -> None:
    if output == "json":
        print(json.dumps(result, ensure_ascii=False))
        return
    if result and not isinstance(result[0], dict):
        print(result[1])
        return
    for series in result:
        text = ", ".join(f"{name}={json.dumps(value)}" for name, value in series["metric"].items())
        print(f"{series['value'][1]:>12}  {{{printable(text)}}}")
