"""`frazil query` answers queries without doors and without a pipeline."""

from __future__ import annotations

from frazil.cli.terminal.context import GivenContext


def query(*, context: GivenContext) -> None:
    """Answer queries, until SIGTERM or Ctrl-C.

    It needs the object store and the catalog, and nothing else. `frazil serve` does this too; run it alone where
    queries have a machine of their own. Rows that are not sealed yet are seen only if their WAL is in its data
    folder.
    """
    from frazil.app.roles import query_alone
    from frazil.cli.role import run_role

    run_role(
        context.load().config, query_alone, lambda url, _: f"Queries are answered at {url}; health at {url}/health."
    )
