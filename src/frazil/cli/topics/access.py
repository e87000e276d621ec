"""Connects commands about topics to a running Frazil, or reads the data folder where that is enough."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Annotated, TypeVar

from cyclopts import Parameter

from frazil.cli.terminal.address import address_of, default_url
from frazil.cli.terminal.context import Context
from frazil.cli.topics.client import TopicsClient

if TYPE_CHECKING:
    from frazil.config.model import Config
    from frazil.log.log import Log
    from frazil.topics.storage import TopicStorage

T = TypeVar("T")

Url = Annotated[
    str | None, Parameter(help="Address of the running Frazil; by default that of the `server` settings.")
]


@contextmanager
def connect(url: str | None, context: Context) -> Iterator[TopicsClient]:
    """Yields a client of the running Frazil. Nothing is sent before the first request."""
    client = TopicsClient(address_of(url or default_url(context.load().config.server)))
    try:
        yield client
    finally:
        client.close()


def read_data_folder(config: Config, work: Callable[[TopicStorage, Log], Awaitable[T]]) -> T:
    """Runs `work` on the data folder and the tables, without a running Frazil."""
    import asyncio

    from frazil.cli.terminal.log_access import open_log
    from frazil.lake.catalog.lake import Lake
    from frazil.ops.logging import setup_logging
    from frazil.topics.storage import TopicStorage

    setup_logging(config.logging.model_copy(update={"level": "warning"}))

    async def look(log: Log, lake: Lake) -> T:
        storage = TopicStorage(log, lake)
        try:
            return await work(storage, log)
        finally:
            await storage.shutdown()

    lake = Lake(config)
    try:
        with open_log(config) as log:
            return asyncio.run(look(log, lake))
    finally:
        lake.close()
