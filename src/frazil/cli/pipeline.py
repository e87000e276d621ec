"""`frazil pipeline` runs the pipeline without doors."""

from __future__ import annotations

from frazil.cli.terminal.context import GivenContext


def pipeline(*, context: GivenContext) -> None:
    """Move what is in the log into Iceberg tables, until SIGTERM or Ctrl-C.

    `frazil serve` does this too; run it alone where the pipeline has a machine of its own.
    """
    from frazil.app.roles import pipeline_alone
    from frazil.cli.role import run_role

    run_role(context.load().config, pipeline_alone, lambda url, _: f"Pipeline is starting; health at {url}/health.")
