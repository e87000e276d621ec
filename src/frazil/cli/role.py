"""Runs one role of Frazil until a signal ends it."""

from __future__ import annotations

import asyncio
from collections.abc import Callable

from frazil.app.roles import Role, serve
from frazil.config.model import Config
from frazil.errors import Interrupted
from frazil.ops.health import HealthReport
from frazil.ops.logging import setup_logging


def run_role(config: Config, role: Role, ready: Callable[[str, HealthReport], str]) -> None:
    """Prints what `ready` makes of the HTTP address and the health report, once everything has started."""
    setup_logging(config.logging)
    ended_by = asyncio.run(serve(config, role, announce=lambda url, report: print(ready(url, report), flush=True)))
    if ended_by is not None:
        raise Interrupted(f"stopped by {ended_by.name}")
