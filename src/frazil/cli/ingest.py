"""`frazil ingest` runs the doors and the hot buffer without a pipeline."""

from __future__ import annotations

import asyncio

from frazil.cli.terminal.context import GivenContext
from frazil.errors import Interrupted
from frazil.ops.logging import setup_logging


def ingest(*, context: GivenContext) -> None:
    """Take records in and answer hot lookups, until SIGTERM or Ctrl-C.

    `frazil serve` does this too; run it alone where records come in and the pipeline has a machine of its own.
    """
    from frazil.app.roles import ingest as doors
    from frazil.app.roles import serve
    from frazil.cli.serve import not_served

    config = context.load().config
    setup_logging(config.logging)
    ended_by = asyncio.run(
        serve(
            config,
            doors,
            announce=lambda url, report: print(
                "\n".join([f"Doors are open; health at {url}/health.", *not_served(report)]), flush=True
            ),
        )
    )
    if ended_by is not None:
        raise Interrupted(f"stopped by {ended_by.name}")
