"""Nothing is stored of bodies that are cut off, though their beginning may be a message with some records."""

from __future__ import annotations

import asyncio
import gzip
from collections.abc import Callable
from pathlib import Path

import pytest

from frazil.formats.otlp import logs
from tests.doors.telemetry.raw import Wire, chunk, data, goaway, head_1, head_2, reset, trailers
from tests.doors.telemetry.support import PROTOBUF, Served, logs_request, run, settings

PATHS = {"otlp": "/v1/logs", "loki": "/otlp/v1/logs"}
FIELDS = tuple(PROTOBUF.items())
ROUNDS = 5

Break = Callable[[Wire], None]
"""Ends the connection after what was sent."""


def messages(size: int) -> tuple[bytes, bytes]:
    """Returns two messages, each valid by itself and also together."""
    first, second = (logs_request(text * size).SerializeToString() for text in ("a", "b"))
    assert len(logs.REQUEST.FromString(first + second).resource_logs) == 2
    return first, second


def stay(_: Wire) -> None: ...


async def _seen_to_go(served: Served, count: int) -> None:
    while served.answered(400) < count:
        await asyncio.sleep(0.01)


async def _cut(served: Served, api: str, sent: list[bytes], leave: Break) -> None:
    wires = [await Wire.open(served.url(api)) for _ in range(2 * ROUNDS)]
    # It ends at once, so that the server may never see the request, or when the server is surely reading.
    for pause, same in ((0.0, wires[:ROUNDS]), (0.1, wires[ROUNDS:])):
        await asyncio.gather(*(wire.send(*sent, pause=pause) for wire in same))
        for wire in same:
            leave(wire)
    await _seen_to_go(served, ROUNDS)
    while served.in_flight():
        await asyncio.sleep(0.01)
    # Other requests are served as before.
    assert (await served.post(PATHS[api], logs_request("whole").SerializeToString(), api)).status_code == 200
    assert served.stored() == 1
    for wire in wires:
        wire.close()


@pytest.mark.parametrize("leave", [Wire.close, Wire.abort])
@pytest.mark.parametrize("encoding", ["identity", "gzip"])
@pytest.mark.parametrize("size", [10, 300_000])
@pytest.mark.parametrize("kind", ["length", "chunked", "chunk begun", "end begun", "nothing"])
@pytest.mark.parametrize("api", PATHS)
def test_http_1(tmp_path: Path, api: str, kind: str, size: int, encoding: str, leave: Break) -> None:
    pack = gzip.compress if encoding == "gzip" else bytes
    first, second = map(pack, messages(size))
    fields = [*FIELDS, ("content-encoding", encoding)]
    length = len(first + second) if kind == "length" else None
    sent = {
        "length": [first],
        "chunked": [chunk(first)],
        "chunk begun": [chunk(first), chunk(second)[:-10]],
        "end begun": [chunk(first), b"0\r\n"],
        "nothing": [],
    }[kind]

    async def scenario(served: Served) -> None:
        await _cut(served, api, [head_1(PATHS[api], length, fields), *sent], leave)

    run(settings(tmp_path), scenario)


NO_ERROR, INTERNAL_ERROR, CANCEL = 0, 2, 8


@pytest.mark.parametrize(
    ("end", "leave"),
    [
        (b"", Wire.close),
        (b"", Wire.abort),
        (goaway(), Wire.close),
        (reset(NO_ERROR), stay),
        (reset(INTERNAL_ERROR), stay),
        (reset(CANCEL), stay),
    ],
    ids=["closed", "aborted", "goaway", "no-error", "internal-error", "cancel"],
)
@pytest.mark.parametrize("size", [10, 20_000])
@pytest.mark.parametrize("sized", [True, False])
@pytest.mark.parametrize("api", PATHS)
def test_http_2(tmp_path: Path, api: str, sized: bool, size: int, end: bytes, leave: Break) -> None:
    first, second = messages(size)
    head = head_2(PATHS[api], len(first + second) if sized else None, FIELDS)

    async def scenario(served: Served) -> None:
        await _cut(served, api, [head, data(first), end], leave)

    run(settings(tmp_path), scenario)


@pytest.mark.parametrize("sized", [True, False])
@pytest.mark.parametrize("size", [10, 20_000])
@pytest.mark.parametrize("version", [1, 2])
@pytest.mark.parametrize("api", PATHS)
def test_whole_bodies_in_parts(tmp_path: Path, api: str, version: int, size: int, sized: bool) -> None:
    first, second = messages(size)
    length, path = len(first + second) if sized else None, PATHS[api]
    if version == 1:
        head = head_1(path, length, FIELDS)
        bodies = [[first, second]] if sized else [[chunk(first), chunk(second), b"0\r\n\r\n"]]
    else:
        head = head_2(path, length, FIELDS)
        bodies = [
            [data(first), data(second, end=True)],
            [data(first), data(second), data(b"", end=True)],
            [data(first), data(b""), data(second, end=True)],
            [data(first), data(second), trailers()],
        ]

    async def scenario(served: Served) -> None:
        for number, body in enumerate(bodies):
            wire = await Wire.open(served.url(api))
            await wire.send(head, *body, pause=0.01 * (number % 2))
            assert await wire.is_accepted()
            wire.close()
        assert served.answered(400) == 0
        # The other requests are the same bytes again.
        assert served.stored() == 2

    run(settings(tmp_path), scenario)


@pytest.mark.parametrize("version", [1, 2])
def test_more_than_was_announced_is_not_taken(tmp_path: Path, version: int) -> None:
    """What follows is a second request over HTTP/1.1, or not HTTP; over HTTP/2 all of it is wrong."""
    first, second = messages(10)
    head, rest = (head_1, second) if version == 1 else (head_2, data(first + second, end=True))

    async def scenario(served: Served) -> None:
        wire = await Wire.open(served.url("otlp"))
        await wire.send(head("/v1/logs", len(first), FIELDS), *([first] if version == 1 else []), rest)
        if version == 1:
            assert await wire.is_accepted()
        else:
            await _seen_to_go(served, 1)
        wire.close()
        assert served.stored() == (1 if version == 1 else 0)

    run(settings(tmp_path), scenario)
