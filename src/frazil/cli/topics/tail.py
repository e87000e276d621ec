"""`frazil topics tail` prints messages of a topic, and can follow it."""

from __future__ import annotations

import base64
import json
import re
import sys
import time
from collections.abc import Iterator
from itertools import islice
from typing import TYPE_CHECKING, Annotated, Any, Literal

from cyclopts import Parameter
from cyclopts.validators import Number

from frazil.cli.terminal.context import GivenContext
from frazil.cli.terminal.printable import printable
from frazil.cli.topics.access import Url, connect, read_data_folder
from frazil.cli.topics.client import ConnectionLost, ServerUnreachable, TemporarilyRefused, TopicsClient, path_of
from frazil.errors import FrazilError

if TYPE_CHECKING:
    from frazil.config.model import Config

_PAGE_MESSAGES = 1000
"""One request asks for this many messages."""
_RETRY_SECONDS = 1.0

Message = dict[str, Any]
Query = dict[str, object]


def tail(
    topic: str,
    /,
    *,
    from_: Annotated[
        str,
        Parameter(
            name="--from",
            allow_leading_hyphen=True,
            help="Where to begin: `earliest`, `latest`, an offset, a time like `2026-11-16T12:00`, or `-N` for the "
            "newest N of each partition.",
        ),
    ] = "-10",
    partition: Annotated[int | None, Parameter(help="Only this partition.", validator=Number(gte=0))] = None,
    limit: Annotated[int | None, Parameter(help="End after so many messages.", validator=Number(gte=1))] = None,
    follow: Annotated[
        bool, Parameter(name=("--follow", "-f"), negative=(), help="Go on with what comes, until Ctrl-C.")
    ] = False,
    url: Url = None,
    output: Annotated[
        Literal["human", "json", "raw"],
        Parameter(
            help="How to print them; `json` has one in each line, `raw` only what they carry, with a line end."
        ),
    ] = "human",
    context: GivenContext,
) -> None:
    """Print messages of a topic: the newest few, or all from somewhere on.

    Without a running Frazil it looks into the data folder, but cannot follow.
    """
    try:
        with connect(url, context) as client:
            _print(islice(_remote(client, topic, from_, partition, follow), limit), output, follow)
    except ServerUnreachable:
        if url is not None or follow:
            raise
        _print(islice(_local(context.load().config, topic, from_, partition, limit), limit), output, follow)


# --- from a running Frazil -----------------------------------------------------------------------------------


def _remote(client: TopicsClient, topic: str, begin: str, partition: int | None, follow: bool) -> Iterator[Message]:
    query: Query = {} if partition is None else {"partition": partition}
    start = _start(begin, lambda: client.request("GET", path_of(topic, "stats"))["partitions"])
    if follow:
        if start == {"offset": "latest"}:
            # Fix the start now, so that it holds even if the connection breaks before the first message.
            start = {"offset": client.request("GET", path_of(topic), query | start)["next"]}
        yield from _follow(client, topic, query | start)
        return
    page = client.request("GET", path_of(topic), query | start | {"limit": _PAGE_MESSAGES})
    yield from page["messages"]
    if page["at_end"]:
        return
    # There may be very much more, so the rest is read as one stream.
    ends = _parse_offsets(client.request("GET", path_of(topic), query | {"offset": "latest"})["next"])
    with client.lines(path_of(topic, "stream"), query | {"offset": page["next"]}, {}) as lines:
        for place, message in _events(lines):
            if message["offset"] < ends.get(message["partition"], 0):
                yield message
            if all(last >= ends.get(partition, 0) - 1 for partition, last in _parse_offsets(place).items()):
                client.close()
                return
    raise ConnectionLost(f"{client.address} has ended before all messages came.")


def _parse_offsets(text: str) -> dict[int, int]:
    """Parses offsets by partition, such as `0:15,1:20`."""
    pairs = (each.split(":") for each in text.split(","))
    return {int(partition): int(offset) for partition, offset in pairs}


def _follow(client: TopicsClient, topic: str, query: Query) -> Iterator[Message]:
    """Yields messages as they come.

    When the connection is lost, it goes on where it was as soon as a server answers.
    """
    last = ""
    begun = waiting = False
    while True:
        try:
            headers = {"last-event-id": last} if last else {}
            with client.lines(path_of(topic, "stream"), query, headers) as lines:
                begun, waiting = True, False
                for last, message in _events(lines):  # noqa: B007 - where to go on after an error
                    yield message
        except (ServerUnreachable, ConnectionLost, TemporarilyRefused):
            if not begun:
                raise
            if not waiting:
                print(f"frazil: {client.address} does not answer; trying again until it does", file=sys.stderr)
            waiting = True
        client.close()
        time.sleep(_RETRY_SECONDS)


def _events(lines: Iterator[bytes]) -> Iterator[tuple[str, Message]]:
    """Yields the id and the message of each server-sent event."""
    event: dict[str, str] = {}
    for line in lines:
        name, _, value = line.decode().rstrip("\r\n").partition(":")
        if name:
            event[name] = value.removeprefix(" ")
        elif line.strip():
            continue  # This comment line only keeps the connection alive.
        elif "data" in event:
            data = json.loads(event["data"])
            if event.get("event") == "problem":
                raise FrazilError(data["error"])
            yield event["id"], data
            event = {}
        else:
            event = {}


# --- from the data folder ------------------------------------------------------------------------------------


def _local(config: Config, topic: str, begin: str, partition: int | None, limit: int | None) -> list[Message]:
    from frazil.doors.http.message_rows import message_texts
    from frazil.doors.http.pages import cursors_of, read_page
    from frazil.doors.http.positions import start_of
    from frazil.doors.http.topic_json import topic_stats_json
    from frazil.log.log import Log
    from frazil.topics.read.starts import EARLIEST
    from frazil.topics.storage import TopicStorage

    async def look(storage: TopicStorage, log: Log) -> list[Message]:
        stats = topic_stats_json(await storage.get_topic_stats(topic))["partitions"]
        given = _start(begin, lambda: stats)
        start = start_of(given.get("offset"), given.get("time"), None, EARLIEST)
        cursors = await cursors_of(storage, topic, partition, start)
        found: list[Message] = []
        while limit is None or len(found) < limit:
            page = await read_page(cursors, _PAGE_MESSAGES)
            found += [json.loads(text) for run in page.runs for text in message_texts(run).to_pylist()]
            if page.at_end:
                break
        return found

    return read_data_folder(config, look)


# --- both ----------------------------------------------------------------------------------------------------


def _start(begin: str, partitions: Any) -> dict[str, str]:
    """Returns where to begin, as parameters of a request.

    `partitions` returns where each partition begins and ends.
    """
    if match := re.fullmatch(r"-(\d{1,18})", begin):
        newest = int(match[1])
        offsets = {
            each["partition"]: max(each["first_offset"], each["next_offset"] - newest) for each in partitions()
        }
        return {"offset": ",".join(f"{partition}:{offset}" for partition, offset in offsets.items())}
    if begin in ("earliest", "latest") or re.fullmatch(r"\d{1,11}|\d+:.*", begin):
        return {"offset": begin}
    return {"time": begin}


def _print(messages: Iterator[Message], output: Literal["human", "json", "raw"], follow: bool) -> None:
    for message in messages:
        match output:
            case "json":
                print(json.dumps(message, ensure_ascii=False))
            case "raw":
                sys.stdout.buffer.write(_payload(message) + b"\n")
            case "human":
                print(_line(message))
        if follow:
            sys.stdout.flush()


def _payload(message: Message) -> bytes:
    return message["payload"].encode() if "payload" in message else base64.b64decode(message["payload_base64"])


def _line(message: Message) -> str:
    """Returns a message as one line, without characters that would confuse a terminal."""
    at = f"{message['partition']}:{message['offset']}"
    parts = [f"{at:<8}", message.get("publish_time", "").replace("T", " ")]
    if "key" in message:
        parts.append(f"[{printable(message['key'])}]")
    if "payload" in message:
        parts.append(printable(message["payload"]))
    else:
        data = _payload(message)
        parts.append(f"0x{data[:64].hex()}{'…' if len(data) > 64 else ''} ({len(data):,} bytes)")
    attributes = ", ".join(
        f"{printable(name)}={printable(text)}" for name, text in message.get("attributes", {}).items()
    )
    return "  ".join([*parts, *([f"({attributes})"] if attributes else [])])
