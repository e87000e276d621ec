"""`frazil topics produce` stores messages in a topic."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Annotated, Any, BinaryIO

from cyclopts import Parameter

from frazil.cli.terminal.context import GivenContext
from frazil.cli.terminal.output import Format, count, print_json
from frazil.cli.topics.access import Url, connect
from frazil.cli.topics.client import TopicsClient, path_of
from frazil.errors import ConfigError, FrazilIoError, RecordTooLarge, TopicNotFound

_READ_BYTES = 1024 * 1024
_MAX_LENGTH = 4 * 1024 * 1024
"""A line may have this many bytes, as messages are no larger."""


def produce(
    topic: str,
    message: Annotated[
        str | None, Parameter(help="The message; without it, each line of standard input is one.")
    ] = None,
    /,
    *,
    key: Annotated[
        str | None, Parameter(help="Messages with one key go to one partition, and keep their order.")
    ] = None,
    file: Annotated[
        str | None,
        Parameter(name=("--file", "-f"), help="A file with a message in each line; `-` is standard input."),
    ] = None,
    partition: Annotated[int | None, Parameter(help="The partition that they go to.")] = None,
    create: Annotated[bool, Parameter(negative=(), help="Create the topic if there is none.")] = False,
    url: Url = None,
    output: Annotated[Format, Parameter(help="How to print where they are.")] = "human",
    context: GivenContext,
) -> None:
    """Store messages in a topic: `frazil topics produce orders "a pound of ice" --create`.

    When it ends well, all of them are stored; those of a pipe are stored as they come.
    """
    if message is not None and file is not None:
        raise ConfigError("Give a message or a file with messages, not both.")
    query: dict[str, object] = {}
    if key is not None:
        query["key"] = key
    if partition is not None:
        query["partition"] = partition
    done = _Produced()
    with connect(url, context) as client:
        if create:
            client.request("PUT", path_of(topic))
        try:
            if message is not None:
                done.add(client.request("POST", path_of(topic), query, message.encode()))
            else:
                with _opened(file) as lines:
                    for batch in _batches(lines):
                        _send(client, topic, query, batch, done)
        except TopicNotFound as error:
            raise TopicNotFound(f"{error} --create makes a new one.") from None
        except BaseException:
            if done.messages:
                print(f"frazil: before that, {done.summary()}", file=sys.stderr)
            raise
    if output == "json":
        print_json(done.as_data(topic))
    else:
        print(done.summary())


class _Produced:
    """Adds up which messages were stored, and at which offsets."""

    def __init__(self) -> None:
        self.messages = 0
        self._ranges: dict[int, tuple[int, int]] = {}

    def add(self, answer: dict[str, Any]) -> None:
        if "offset" in answer:
            self._note(answer["partition"], answer["offset"], answer["offset"])
            self.messages += 1
            return
        self.messages += answer["messages"]
        for run in answer["partitions"]:
            self._note(run["partition"], run["first_offset"], run["last_offset"])

    def _note(self, partition: int, first: int, last: int) -> None:
        known = self._ranges.get(partition, (first, last))
        self._ranges[partition] = (min(known[0], first), max(known[1], last))

    def summary(self) -> str:
        places = [
            f"partition {partition}, offset {first}"
            if first == last
            else f"partition {partition}, offsets {first} to {last}"
            for partition, (first, last) in sorted(self._ranges.items())
        ]
        if not places:
            return "there was nothing to store"
        return f"{count(self.messages, 'message')} stored: {'; '.join(places)}"

    def as_data(self, topic: str) -> dict[str, Any]:
        return {
            "topic": topic,
            "messages": self.messages,
            "partitions": [
                {"partition": partition, "first_offset": first, "last_offset": last}
                for partition, (first, last) in sorted(self._ranges.items())
            ],
        }


@contextmanager
def _opened(file: str | None) -> Iterator[BinaryIO]:
    if file not in (None, "-"):
        assert file is not None
        try:
            with open(file, "rb") as opened:
                yield opened
        except OSError as error:
            raise FrazilIoError(f"{file} cannot be read: {error.strerror}.") from error
        return
    if sys.stdin.isatty():
        print("One message in each line; Ctrl-D ends.", file=sys.stderr)
    yield sys.stdin.buffer


def _batches(lines: BinaryIO) -> Iterator[list[bytes]]:
    """Yields the whole lines that have arrived so far. The last line may lack its line end."""
    rest = b""
    # `read1` returns what a pipe has, without waiting for more.
    while data := getattr(lines, "read1", lines.read)(_READ_BYTES):
        *whole, rest = (rest + data).split(b"\n")
        if len(rest) > _MAX_LENGTH:
            raise RecordTooLarge(f"A line has more than {_MAX_LENGTH:,} bytes: messages are no larger.")
        if whole:
            yield whole
    if rest:
        yield [rest]


def _send(client: TopicsClient, topic: str, query: dict[str, object], lines: list[bytes], done: _Produced) -> None:
    import pyarrow as pa

    from frazil.web.answers import ARROW_STREAM

    batch = pa.record_batch({"payload": pa.array([line.removesuffix(b"\r") for line in lines], pa.binary())})
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, batch.schema) as stream:
        stream.write_batch(batch)
    body = sink.getvalue().to_pybytes()
    done.add(client.request("POST", path_of(topic), query, body, {"content-type": ARROW_STREAM}))
