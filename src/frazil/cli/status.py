"""`frazil status` asks a running Frazil for its health and its topics."""

from __future__ import annotations

import json
import time
from typing import TYPE_CHECKING, Annotated, Any

from cyclopts import Parameter
from cyclopts.validators import Number

from frazil.cli.terminal.address import address_of, default_url
from frazil.cli.terminal.context import GivenContext
from frazil.cli.terminal.output import Format, print_json
from frazil.errors import HealthCheckFailed
from frazil.ops.http_client import HttpClient, RequestFailed

if TYPE_CHECKING:
    from collections.abc import Iterator

_TIMEOUT_SECONDS = 5.0

Status = dict[str, Any]


def status(
    *,
    url: Annotated[str | None, Parameter(help="Its address; by default that of the `server` settings.")] = None,
    watch: Annotated[bool, Parameter(negative=(), help="Show it again and again, until Ctrl-C.")] = False,
    interval: Annotated[float, Parameter(help="Seconds between two looks.", validator=Number(gt=0))] = 2.0,
    output: Annotated[Format, Parameter(help="How to print it; JSON is one line a look with --watch.")] = "human",
    context: GivenContext,
) -> None:
    """Ask a running Frazil how it is; fails when it is unhealthy or does not answer."""
    address = address_of(url or default_url(context.load().config.server))
    if watch:
        _watch(address, interval, output)
        return
    report = _ask(address)
    if output == "json":
        print_json(report)
    else:
        from frazil.cli.status_view import render
        from frazil.cli.terminal.output import print_renderable

        print_renderable(render(address, report))
    if report["status"] == "unhealthy":
        bad = [
            f"{name} ({each['reason']})"
            for name, each in report["components"].items()
            if each["status"] == "unhealthy"
        ]
        raise HealthCheckFailed(f"{address} is unhealthy: {', '.join(bad)}")


def _watch(address: str, interval: float, output: Format) -> None:
    """Show the status again and again. The first request must succeed; later ones may fail for a while."""
    if output == "json":
        for report in _poll(address, interval):
            print(json.dumps(report, ensure_ascii=False), flush=True)
    else:
        from frazil.cli.status_view import show_live

        show_live(address, _poll(address, interval))


def _poll(address: str, interval: float) -> Iterator[Status]:
    yield _ask(address)
    while True:
        time.sleep(interval)
        try:
            yield _ask(address)
        except HealthCheckFailed as error:
            yield {"status": "unreachable", "reason": str(error)}


def _ask(address: str) -> Status:
    client = HttpClient(address, _TIMEOUT_SECONDS)
    try:
        with client.ask("GET", "/status") as answer:
            body = answer.read()
    except RequestFailed as error:
        raise HealthCheckFailed(f"no Frazil answers at {address}: {error}; is `frazil serve` running?") from error
    finally:
        client.close()
    try:
        report = json.loads(body)
        _ = [report[key] for key in ("status", "version", "uptime_seconds", "components", "topics")]
    except (ValueError, TypeError, KeyError) as error:
        raise HealthCheckFailed(f"what answers at {address} is not Frazil") from error
    return dict(report)
