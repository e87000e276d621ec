"""`frazil ingest` runs the doors and the hot buffer without a pipeline."""

from __future__ import annotations

from frazil.cli.terminal.context import GivenContext
from frazil.ops.health import HealthReport


def ingest(*, context: GivenContext) -> None:
    """Take records in and answer hot lookups, until SIGTERM or Ctrl-C.

    `frazil serve` does this too; run it alone where records come in and the pipeline has a machine of its own.
    """
    from frazil.app.roles import ingest as doors
    from frazil.cli.role import run_role
    from frazil.cli.serve import not_served

    def ready(url: str, report: HealthReport) -> str:
        return "\n".join([f"Doors are open; health at {url}/health.", *not_served(report)])

    run_role(context.load().config, doors, ready)
