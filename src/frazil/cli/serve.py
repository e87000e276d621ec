"""`frazil serve` runs everything in one process, and prints where it listens."""

from __future__ import annotations

import os
import shutil
import sys
from pathlib import Path

from frazil.app.roles import everything
from frazil.cli.commands import COMMANDS
from frazil.cli.role import run_role
from frazil.cli.terminal.context import GivenContext
from frazil.config.model import Config
from frazil.config.sections.danube import DanubeConfig
from frazil.config.sections.endpoint import EndpointConfig, TlsConfig
from frazil.config.sections.loki import LokiConfig
from frazil.config.sections.prometheus import PrometheusConfig
from frazil.config.sections.tempo import TempoConfig
from frazil.ops.health import HEALTHY, HealthReport
from frazil.version import __version__

_NEXT_STEPS = (
    ("load", "echo '{\"id\": 1}' | frazil load hello -", "append a record to a topic; files work too"),
    ("topics", "frazil topics describe hello", "see it in the log and, seconds later, in its table"),
    (
        "topics",
        "frazil topics produce hi 'a message' --create",
        "produce a message; `topics tail hi` reads it",
    ),
    ("status", "frazil status --watch", "see how it goes"),
)


def serve(*, context: GivenContext) -> None:
    """Run Frazil on this machine until SIGTERM or Ctrl-C."""
    config = context.load().config
    run_role(config, everything, lambda url, report: banner(config, url, report))


def program() -> str:
    """Returns the command that calls this program from the working directory."""
    called = Path(sys.argv[0])
    if shutil.which("frazil") == str(called.resolve()):
        return "frazil"
    return os.path.relpath(called) if called.exists() else "frazil"


def _doors(config: Config) -> list[str]:
    """Returns a line for each port besides that of operations. A port that was configured as 0 is in the log."""
    otlp, loki, prometheus, tempo, danube = config.otlp, config.loki, config.prometheus, config.tempo, config.danube
    lines: list[str] = []
    if otlp.enabled:
        lines.append(f"  OTLP        {_url(otlp.http, otlp.tls)}, gRPC {otlp.grpc.host}:{otlp.grpc.port or '(any)'}")
    if loki.enabled:
        lines.append(f"  Loki        {_url(loki, loki.tls)}/loki/api/v1/push")
    if prometheus.enabled:
        lines.append(f"  Prometheus  {_url(prometheus, prometheus.tls)}, remote write at /api/v1/write")
    if tempo.enabled:
        lines.append(f"  Tempo       {_url(tempo, tempo.tls)}, gRPC {tempo.grpc.host}:{tempo.grpc.port or '(any)'}")
    if danube.enabled:
        lines.append(f"  Danube      {danube.advertised_url or _url(danube, danube.tls)}")
    return lines


def _url(at: EndpointConfig | LokiConfig | PrometheusConfig | TempoConfig | DanubeConfig, tls: TlsConfig) -> str:
    scheme = "http" if tls.cert is None else "https"
    return f"{scheme}://{at.host}:{at.port or '(any)'}"


def not_served(report: HealthReport) -> list[str]:
    """Returns lines about topics that are not served. Each ends with the command that helps, if there is one."""
    wrong = report.components.get("log", HEALTHY).details.values()
    return ["Not served:", *(f"  {each}" for each in wrong)] if wrong else []


def banner(config: Config, url: str, report: HealthReport) -> str:
    """Returns what listens where, which topics are not served, and what to try next (only commands that exist)."""
    known = {command.name for command in COMMANDS}
    steps = [(line.replace("frazil ", f"{program()} "), why) for name, line, why in _NEXT_STEPS if name in known]
    steps.append((f"curl {url}/health", "ask how it is"))
    width = max(len(line) for line, _ in steps)
    return "\n".join(
        [
            f"Frazil {__version__} is ready to take records.",
            f"  operations  {url}",
            *_doors(config),
            f"  data        {config.data_dir.resolve()}",
            *([f"  store       {config.store.url}"] if config.store.url else []),
            *(
                [f"  tables      Spark is starting; `{program()} status` tells when they are filled"]
                if config.pipeline.enabled
                else []
            ),
            *not_served(report),
            "Try next:",
            *(f"  {line:<{width}}  {why}" for line, why in steps),
            "Ctrl-C stops it.",
        ]
    )
