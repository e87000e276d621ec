from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.doors.http.support import Served, serving


def test_pages_follow_each_other_over_all_partitions(tmp_path: Path) -> None:
    async def use(served: Served) -> None:
        await served.create("orders", 3)
        wanted = []
        for number in range(25):
            partition = 0 if number < 15 else number % 3
            await served.store("orders", str(number), query=f"?partition={partition}")
            wanted.append(str(number))
        found, at, ended = [], "earliest", False
        while not ended:
            page = await served.ask("GET", f"/topics/orders?offset={at}&limit=4")
            assert 0 < len(page["messages"]) <= 4
            found += page["messages"]
            at, ended = page["next"], page["at_end"]
        assert sorted((each["payload"] for each in found), key=int) == wanted
        for partition in range(3):
            offsets = [each["offset"] for each in found if each["partition"] == partition]
            assert offsets == list(range(len(offsets)))
        page = await served.ask("GET", f"/topics/orders?offset={at}")
        assert (page["messages"], page["next"], page["at_end"]) == ([], at, True)
        await served.store("orders", "new", query="?partition=1")
        assert await served.payloads(f"/topics/orders?offset={at}") == ["new"]

    serving(tmp_path, use)


def test_no_partition_is_kept_waiting_by_another(tmp_path: Path) -> None:
    async def use(served: Served) -> None:
        await served.create("orders", 2)
        await served.store("orders", *("many" for _ in range(50)), query="?partition=0")
        await served.store("orders", "one", query="?partition=1")
        assert "one" in await served.payloads("/topics/orders?limit=4")

    serving(tmp_path, use)


def test_starts(tmp_path: Path) -> None:
    lines = [{"payload": str(hour), "publish_time": f"2026-01-01T{hour:02}:00:00Z"} for hour in range(10)]

    async def use(served: Served) -> None:
        await served.create("orders")
        await served.lines("orders", "\n".join(map(json.dumps, lines)))
        served.seal("orders")
        for query, first in (
            ("", "0"),
            ("?offset=7", "7"),
            ("?offset=0:8", "8"),
            ("?time=2026-01-01T05:00", "5"),
            ("?time=2026-01-01T04:30:01%2B00:00", "5"),
            ("?time=2026-01-01T06:30:01+02:00", "5"),
            ("?time=1767243600000", "5"),
        ):
            assert (await served.payloads(f"/topics/orders{query}"))[0] == first, query
        for query in ("?offset=latest", "?offset=10", "?time=2027-01-01"):
            page = await served.ask("GET", f"/topics/orders{query}")
            assert (page["messages"], page["next"]) == ([], "0:10"), query

    serving(tmp_path, use)


def test_large_messages_come_in_small_pages(tmp_path: Path) -> None:
    async def use(served: Served) -> None:
        await served.create("orders", 2)
        large = "x" * 3_000_000
        for partition in (0, 1, 0, 1):
            await served.store("orders", large, query=f"?partition={partition}")
        found, at, ended, pages = 0, "earliest", False, 0
        while not ended:
            page = await served.ask("GET", f"/topics/orders?offset={at}")
            assert 0 < len(page["messages"]) < 4
            assert {each["payload"] for each in page["messages"]} == {large}
            found, at, ended, pages = found + len(page["messages"]), page["next"], page["at_end"], pages + 1
        assert (found, pages) == (4, 2)

    serving(tmp_path, use)


def test_awkward_payloads_come_back_as_they_were(tmp_path: Path) -> None:
    texts = ["", "\x00", 'a "quoted"\nline\r\n', "\u2028é🧊", "\\"]

    async def use(served: Served) -> None:
        await served.create("orders")
        # Few messages are written row by row, and many by columns.
        await served.store("orders", *texts)
        assert await served.payloads("/topics/orders") == texts
        await served.store("orders", *(texts * 40))
        assert await served.payloads("/topics/orders?offset=5") == texts * 40

    serving(tmp_path, use)


def test_what_is_gone_is_told_with_what_is_left(tmp_path: Path) -> None:
    async def use(served: Served) -> None:
        await served.create("orders")
        for payloads in (["a", "b"], ["c"], ["d"]):
            await served.store("orders", *payloads)
            served.seal("orders")
        served.lose("orders", 3)
        told = await served.ask("GET", "/topics/orders?offset=0", 410)
        assert told["first_offset"] == 3
        assert "go on from there" in told["error"]
        assert (await served.ask("GET", "/topics/orders/stream?offset=0", 410))["first_offset"] == 3
        assert await served.payloads("/topics/orders") == ["d"]

    serving(tmp_path, use)


@pytest.mark.parametrize(
    ("query", "reason"),
    [
        ("offset=1&time=2026-01-01", "offset or time, not both"),
        ("offset=soon", "offset is earliest, latest, a number, or one for each partition like 0:15,1:20"),
        ("offset=-1", "offset is earliest, latest, a number"),
        ("offset=0:1,0:2", "offset is earliest, latest, a number"),
        ("offset=9223372036854775807", "offset is earliest, latest, a number"),
        ("offset=2:0", "There is no partition 2: the topic has 2"),
        ("offset=1", "asked for offset 1, but the topic ends at 0"),
        ("time=soon", "time is a time like"),
        ("partition=5", "has no partition 5: it has 2"),
        ("limit=0", "limit is a number from 1"),
        ("limit=100000", "limit is a number from 1 to 10000"),
        ("from=0", "there are offset, time, partition, limit"),
    ],
)
def test_wrong_parameters_say_what_is_right(tmp_path: Path, query: str, reason: str) -> None:
    async def use(served: Served) -> None:
        await served.create("orders", 2)
        assert reason in (await served.ask("GET", f"/topics/orders?{query}", 400))["error"]

    serving(tmp_path, use)
