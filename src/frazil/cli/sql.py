"""`frazil sql` answers a query, in this process or by asking a running Frazil."""

from __future__ import annotations

import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

from cyclopts import Parameter

from frazil.cli.terminal.context import GivenContext
from frazil.errors import ConfigError, FrazilIoError

if TYPE_CHECKING:
    import pyarrow as pa


def sql(
    query: Annotated[str | None, Parameter(help="The query; standard input is read if none is given.")] = None,
    /,
    *,
    file: Annotated[Path | None, Parameter(name=("--file", "-f"), help="A file with the query.")] = None,
    url: Annotated[
        str | None,
        Parameter(help="Ask a running Frazil at this address, which also sees what is only in its memory yet."),
    ] = None,
    tenant: Annotated[
        str | None, Parameter(help="See only rows of this tenant, of topics that have a tenant column.")
    ] = None,
    output: Annotated[
        Literal["human", "json", "csv", "arrow"], Parameter(help="How to print the rows; `arrow` is a stream.")
    ] = "human",
    context: GivenContext,
) -> None:
    """Ask for rows of topics: `frazil sql "SELECT count(*) FROM orders"`. Each topic is a table.

    Rows in the table and rows that are still in the log are seen alike, all at one moment. `SHOW TABLES` and
    `DESCRIBE orders` tell what there is.
    """
    from frazil.cli.terminal.query_rows import print_rows

    text = _text(query, file)
    started = time.monotonic()
    rows = _remote(url, text, tenant) if url else _local(context, text, tenant)
    print_rows(rows, output, time.monotonic() - started)


def _text(query: str | None, file: Path | None) -> str:
    if query is not None and file is not None:
        raise ConfigError("Give the query or a file with it, not both.")
    if query is not None and query != "-":
        return query
    if file is not None:
        try:
            return file.read_text()
        except (OSError, UnicodeDecodeError) as error:
            raise FrazilIoError(f"{file} cannot be read: {error}") from error
    if query is None and sys.stdin.isatty():
        raise ConfigError('There is no query: frazil sql "SELECT …", or -f FILE.')
    return sys.stdin.read()


def _local(context: GivenContext, text: str, tenant: str | None) -> pa.Table:
    from frazil.ops.logging import setup_logging
    from frazil.query.sql.session import SqlSession

    config = context.load().config
    setup_logging(config.logging.model_copy(update={"level": "warning"}))
    with SqlSession(config) as session:
        return session.ask(text, tenant)


def _remote(url: str, text: str, tenant: str | None) -> pa.Table:
    from frazil.cli.terminal.address import address_of
    from frazil.query.sql.client import ask

    return ask(address_of(url), text, tenant)
