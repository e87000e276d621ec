"""`frazil pipeline` runs the pipeline without doors."""

from __future__ import annotations

import asyncio

from frazil.cli.terminal.context import GivenContext
from frazil.errors import Interrupted
from frazil.ops.logging import setup_logging


def pipeline(*, context: GivenContext) -> None:
    """Move what is in the log into Iceberg tables, until SIGTERM or Ctrl-C.

    `frazil serve` does this too; run it alone where the pipeline has a machine of its own.
    """
    from frazil.app.roles import pipeline_alone, serve

    config = context.load().config
    setup_logging(config.logging)
    ended_by = asyncio.run(
        serve(
            config,
            pipeline_alone,
            announce=lambda url, _: print(f"Pipeline is starting; health at {url}/health.", flush=True),
        )
    )
    if ended_by is not None:
        raise Interrupted(f"stopped by {ended_by.name}")
