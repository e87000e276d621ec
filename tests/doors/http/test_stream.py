from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from frazil.doors.http import events, slow_clients
from frazil.doors.http.pages import cursors_of
from frazil.topics.read.starts import Start
from tests.doors.http.support import Served, serving

Events = AsyncIterator[dict[str, str]]


async def take(stream: Events, count: int) -> list[dict[str, str]]:
    return [await anext(stream) for _ in range(count)]


def payloads(found: list[dict[str, str]]) -> list[str]:
    return [json.loads(each["data"])["payload"] for each in found]


def test_messages_come_with_their_place_and_on_with_new_ones(tmp_path: Path) -> None:
    async def use(served: Served) -> None:
        await served.create("orders")
        await served.store("orders", "a", "line\nbreak")
        async with served.stream("/topics/orders/stream?offset=earliest") as stream:
            found = await take(stream, 2)
            assert [each["id"] for each in found] == ["0:0", "0:1"]
            assert payloads(found) == ["a", "line\nbreak"]
            await served.store("orders", "new")
            assert payloads(await take(stream, 1)) == ["new"]

    serving(tmp_path, use)


def test_without_a_start_only_what_comes_is_told(tmp_path: Path) -> None:
    async def use(served: Served) -> None:
        await served.create("orders")
        await served.store("orders", "old")
        async with served.stream("/topics/orders/stream") as stream:
            await served.store("orders", "new")
            assert payloads(await take(stream, 1)) == ["new"]

    serving(tmp_path, use)


@pytest.mark.parametrize("cut", range(1, 8))
def test_whoever_comes_back_with_the_last_id_misses_and_repeats_nothing(tmp_path: Path, cut: int) -> None:
    async def use(served: Served) -> None:
        await served.create("orders", 3)
        for number in range(6):
            await served.store("orders", str(number), query=f"?partition={number % 2}")
        async with served.stream("/topics/orders/stream?offset=earliest") as stream:
            if cut == 7:
                await served.store("orders", "6", query="?partition=2")
            found = await take(stream, cut)
        last = found[-1]["id"]
        if cut < 7:
            await served.store("orders", "6", query="?partition=2")
        async with served.stream("/topics/orders/stream?offset=latest", last_event_id=last) as stream:
            found += await take(stream, 7 - cut)
            await served.store("orders", "7", query="?partition=0")
            found += await take(stream, 1)
        assert sorted(payloads(found)) == [str(number) for number in range(8)]
        assert payloads(found)[-1] == "7"

    serving(tmp_path, use)


def test_a_start_at_the_end_holds_for_partitions_that_said_nothing_yet(tmp_path: Path) -> None:
    async def use(served: Served) -> None:
        await served.create("orders", 2)
        await served.store("orders", "old", query="?partition=0")
        await served.store("orders", "old", query="?partition=1")
        async with served.stream("/topics/orders/stream") as stream:
            await served.store("orders", "a", query="?partition=1")
            (event,) = await take(stream, 1)
        assert event["id"] == "1:1,0:0"
        await served.store("orders", "b", query="?partition=0")
        async with served.stream("/topics/orders/stream", last_event_id=event["id"]) as stream:
            assert payloads(await take(stream, 1)) == ["b"]

    serving(tmp_path, use)


def test_one_partition_alone(tmp_path: Path) -> None:
    async def use(served: Served) -> None:
        await served.create("orders", 2)
        await served.store("orders", "a", query="?partition=0")
        await served.store("orders", "b", query="?partition=1")
        async with served.stream("/topics/orders/stream?offset=earliest&partition=1") as stream:
            (event,) = await take(stream, 1)
            assert (event["id"], payloads([event])) == ("1:0", ["b"])

    serving(tmp_path, use)


def test_a_stop_ends_streams_in_good_order(tmp_path: Path) -> None:
    async def use(served: Served) -> None:
        await served.create("orders")
        await served.store("orders", "a")
        seen: list[dict[str, str]] = []

        async def read() -> None:
            async with served.stream("/topics/orders/stream?offset=0") as stream:
                async for event in stream:
                    seen.append(event)

        reading = asyncio.create_task(read())
        while not payloads(seen):
            await asyncio.sleep(0.01)
        await served.part.stop()
        await reading
        assert payloads(seen) == ["a"]
        await served.ask("GET", "/topics/orders", 503)

    serving(tmp_path, use)


def test_nothing_is_kept_for_readers_who_have_gone(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(events, "MOST_STREAMS", 2)

    async def use(served: Served) -> None:
        served.part._api._streams._beat = 0.05
        await served.create("orders")
        await served.store("orders", "a")
        for _ in range(3):
            async with (
                served.stream("/topics/orders/stream?offset=0") as one,
                served.stream("/topics/orders/stream?offset=0") as other,
            ):
                await take(one, 1)
                await take(other, 1)
                told = await served.ask("GET", "/topics/orders/stream", 429)
                assert "2 streams are open" in told["error"]
            while served.part._api._streams._open:
                await asyncio.sleep(0.01)

    serving(tmp_path, use)


def test_a_reader_that_does_not_read_fills_no_memory(tmp_path: Path) -> None:
    """The stream stops when the connection's buffers are full, far from the end."""

    async def use(served: Served) -> None:
        await served.create("orders")
        for _ in range(20):
            await served.store("orders", *("x" * 1_000_000 for _ in range(5)))
        made = 0
        original = events._events

        def counted(*given: object) -> bytes:
            nonlocal made
            made += 1
            return original(*given)  # type: ignore[arg-type]

        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(events, "_events", counted)
            async with served.stream("/topics/orders/stream?offset=0") as stream:
                await take(stream, 1)
                before = -1
                while before != made:
                    before = made
                    await asyncio.sleep(0.3)
                assert made < 50
                rest = await take(stream, 99)
                assert [each["id"] for each in rest] == [f"0:{offset}" for offset in range(1, 100)]

    serving(tmp_path, use)


def test_a_reader_that_never_reads_is_let_go(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(slow_clients, "STALL_SECONDS", 0.5)

    async def use(served: Served) -> None:
        await served.create("orders")
        for _ in range(10):
            await served.store("orders", *("x" * 1_000_000 for _ in range(5)))
        url = served.client.base_url
        reader, writer = await asyncio.open_connection(url.host, url.port, limit=1)
        writer.write(b"GET /topics/orders/stream?offset=0 HTTP/1.1\r\nhost: frazil\r\n\r\n")
        await writer.drain()
        assert await reader.read(8) == b"HTTP/1.1"
        while served.part._api._streams._open:
            await asyncio.sleep(0.05)
        writer.close()

    serving(tmp_path, use)


def test_messages_that_go_while_they_are_read_are_told(tmp_path: Path) -> None:
    """The stream ends with a `problem` event."""

    async def use(served: Served) -> None:
        await served.create("orders")
        for payload in ("a", "b", "c"):
            await served.store("orders", payload)
            served.seal("orders")
        topics = served.part._topics()
        cursors = await cursors_of(topics, "orders", None, Start.at(0))
        served.lose("orders", 2)
        chunks = [chunk async for chunk in served.part._api._streams.events(cursors, topics.memory)]
        name, data, *rest = chunks[-1].decode().split("\n")
        assert (len(chunks), name, rest) == (2, "event: problem", ["", ""])
        assert json.loads(data.removeprefix("data: "))["first_offset"] == 2

    serving(tmp_path, use)


@pytest.mark.parametrize(
    ("query", "last", "status", "reason"),
    [
        ("", "what", 400, "Last-Event-ID is one for each partition"),
        ("", "4:1", 400, "There is no partition 4"),
        ("?limit=3", "", 400, "there are offset, time, partition"),
        ("?partition=3", "", 400, "has no partition 3"),
    ],
)
def test_wrong_requests_are_refused_before_a_stream_begins(
    tmp_path: Path, query: str, last: str, status: int, reason: str
) -> None:
    async def use(served: Served) -> None:
        await served.create("orders")
        headers = {"last-event-id": last} if last else {}
        told = await served.ask("GET", f"/topics/orders/stream{query}", status, headers=headers)
        assert reason in told["error"]
        await served.ask("GET", "/topics/nope/stream", 404)

    serving(tmp_path, use)
