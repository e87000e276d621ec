"""`frazil status`."""

from __future__ import annotations

import json
import urllib.error
import urllib.request
from http.client import HTTPException
from typing import Annotated, Any
from urllib.parse import urlsplit

from cyclopts import Parameter

from frazil.cli.context import GivenContext
from frazil.cli.output import Format, print_json, print_table
from frazil.config.model import ServerConfig
from frazil.errors import ConfigError, HealthCheckFailed

_TIMEOUT_SECONDS = 5.0


def status(
    *,
    url: Annotated[str | None, Parameter(help="Its address; by default that of the `server` settings.")] = None,
    output: Annotated[Format, Parameter(help="How to print it.")] = "human",
    context: GivenContext,
) -> None:
    """Ask a running Frazil how it is; fails when it is unhealthy or does not answer."""
    address = _address(url or _default_url(context.load().config.server))
    report = _ask(address)
    if output == "json":
        print_json(report)
    else:
        print(f"{address} is {report['status']} (Frazil {report['version']}, up {report['uptime_seconds']:.0f} s)")
        if report["components"]:
            rows = [(name, each["status"], each["reason"]) for name, each in report["components"].items()]
            print_table(("component", "status", "reason"), rows)
    if report["status"] == "unhealthy":
        bad = [
            f"{name} ({each['reason']})"
            for name, each in report["components"].items()
            if each["status"] == "unhealthy"
        ]
        raise HealthCheckFailed(f"{address} is unhealthy: {', '.join(bad)}")


def _default_url(server: ServerConfig) -> str:
    if server.port == 0:
        raise ConfigError("server.port is 0, so the port is only known to the running Frazil; give its --url")
    host = {"0.0.0.0": "127.0.0.1", "::": "::1", "": "127.0.0.1"}.get(server.host, server.host)
    return f"http://[{host}]:{server.port}" if ":" in host else f"http://{host}:{server.port}"


def _address(url: str) -> str:
    url = (url if "://" in url else f"http://{url}").rstrip("/").removesuffix("/health")
    try:
        parts = urlsplit(url)
        wrong = parts.scheme not in ("http", "https") or not parts.hostname or parts.port == 0
    except ValueError:
        wrong = True
    if wrong:
        raise ConfigError(f"{url!r} is not an address; --url looks like http://127.0.0.1:8080")
    return url


def _ask(address: str) -> dict[str, Any]:
    # A health check is about one process: a proxy between would answer for it.
    opener = urllib.request.build_opener(urllib.request.ProxyHandler({}))
    try:
        try:
            with opener.open(f"{address}/health", timeout=_TIMEOUT_SECONDS) as answer:
                body = answer.read()
        except urllib.error.HTTPError as error:
            with error:
                body = error.read()
    except (OSError, HTTPException) as error:
        reason = getattr(error, "reason", None) or error
        raise HealthCheckFailed(f"no Frazil answers at {address}: {reason}; is `frazil serve` running?") from error
    try:
        report = json.loads(body)
        _ = [report[key] for key in ("status", "version", "uptime_seconds", "components")]
    except (ValueError, TypeError, KeyError) as error:
        raise HealthCheckFailed(f"what answers at {address} is not Frazil") from error
    return dict(report)
