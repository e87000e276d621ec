"""`frazil topics create`, `delete` and `stats`, which ask a running Frazil."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Annotated, Any

from cyclopts import Parameter
from cyclopts.validators import Number

from frazil.cli.terminal.context import GivenContext
from frazil.cli.terminal.output import Format, count, print_json, print_table
from frazil.cli.topics.access import Url, connect, read_data_folder
from frazil.cli.topics.client import ServerUnreachable, path_of
from frazil.errors import ConfigError

if TYPE_CHECKING:
    from frazil.config.model import Config

Output = Annotated[Format, Parameter(help="How to print it.")]


def create(
    topic: Annotated[str, Parameter(help="Its name: `orders`, or `shop.orders` in a namespace of its own.")],
    /,
    *,
    partitions: Annotated[
        int | None,
        Parameter(help="How many partitions it has, for good; 1 if nothing is said.", validator=Number(gte=1)),
    ] = None,
    url: Url = None,
    output: Output = "human",
    context: GivenContext,
) -> None:
    """Create a topic of messages. One that exists stays as it is."""
    with connect(url, context) as client:
        query = {} if partitions is None else {"partitions": partitions}
        made = client.request("PUT", path_of(topic), query)
    if output == "json":
        print_json(made)
        return
    what = f"Topic {made['topic']!r} {{}} {count(made['partitions'], 'partition')}."
    print(what.format("is there, with" if made["created"] else "existed already, with"))


def delete(
    topic: str,
    /,
    *,
    drop_table: Annotated[
        bool | None, Parameter(negative="--keep-table", help="Whether its table goes too, with all rows.")
    ] = None,
    yes: Annotated[bool, Parameter(name=("--yes", "-y"), negative=(), help="Do not ask.")] = False,
    url: Url = None,
    output: Output = "human",
    context: GivenContext,
) -> None:
    """Delete a topic with the messages that the log has of it. Those that are not in its table yet are gone."""
    if drop_table is None:
        raise ConfigError("What becomes of the topic's table? --drop-table, or --keep-table with the rows it has.")
    with connect(url, context) as client:
        if not yes:
            _confirm(client.request("GET", path_of(topic, "stats")), drop_table)
        gone = client.request("DELETE", path_of(topic), {"drop_table": str(drop_table).lower()})
    if output == "json":
        print_json(gone)
        return
    lost = gone["unmoved"]
    print(f"Topic {gone['topic']!r} is deleted; it had {count(gone['messages'], 'message')}.")
    if drop_table:
        print("Its table is dropped.")
    else:
        print(f"Its table is kept; {count(lost, 'message')} {'was' if lost == 1 else 'were'} not in it yet.")


def _confirm(stats: dict[str, Any], drop_table: bool) -> None:
    lost = stats["message_count"] if drop_table else stats["hot_messages"]
    what = f"Topic {stats['topic']!r} has {count(stats['message_count'], 'message')}, of which {lost:,} will be gone"
    if not sys.stdin.isatty():
        raise ConfigError(f"{what}. Say --yes to delete it.")
    print(f"{what} for good. Delete it? [y/N] ", end="", file=sys.stderr, flush=True)
    if sys.stdin.readline().strip().lower() not in ("y", "yes"):
        raise ConfigError("nothing was deleted")


def stats(topic: str, /, *, url: Url = None, output: Output = "human", context: GivenContext) -> None:
    """Say how many messages a topic has, where they are, and how far its subscriptions are.

    Without a running Frazil it looks into the data folder.
    """
    try:
        with connect(url, context) as client:
            answer = client.request("GET", path_of(topic, "stats"))
    except ServerUnreachable:
        if url is not None:
            raise
        answer = _local(context.load().config, topic)
    if output == "json":
        print_json(answer)
        return
    print(
        f"{answer['topic']}: {count(answer['message_count'], 'message')}, {answer['hot_messages']:,} of them not in "
        f"the table yet; {answer['bytes_stored']:,} bytes, {answer['hot_bytes']:,} of them in the log\n"
    )
    print_table(
        ("partition", "first", "next", "in table", "messages", "hot"),
        [
            (
                each["partition"],
                each["first_offset"],
                each["next_offset"],
                each["committed_offset"],
                f"{each['messages']:,}",
                f"{each['hot_messages']:,}",
            )
            for each in answer["partitions"]
        ],
    )
    print()
    if not answer["subscriptions"]:
        print("There are no subscriptions.")
        return
    print_table(
        ("subscription", "type", "consumers", "lag"),
        [
            (each["subscription"], each["type"], each["consumers"], f"{each['lag']:,}")
            for each in answer["subscriptions"]
        ],
    )


def _local(config: Config, topic: str) -> dict[str, Any]:
    from frazil.doors.http.subscription_listing import subscriptions_of
    from frazil.doors.http.topic_json import topic_stats_json
    from frazil.log.log import Log
    from frazil.topics.storage import TopicStorage

    async def look(storage: TopicStorage, log: Log) -> dict[str, Any]:
        answer = topic_stats_json(await storage.get_topic_stats(topic))
        return {**answer, "subscriptions": await subscriptions_of(storage, log.store, topic, {})}

    return read_data_folder(config, look)
