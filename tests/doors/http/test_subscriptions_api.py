"""Tests durable subscriptions over HTTP."""

from __future__ import annotations

import asyncio
import time
from pathlib import Path
from typing import Any

import httpx
import pyarrow as pa
import pytest

from frazil.topics.subscriptions.checkpoints import Ownership
from frazil.web.answers import ARROW_STREAM
from tests.doors.http.support import Served, serving

BILLING = "/topics/orders/subscriptions/billing"


async def receive(served: Served, query: str = "", status: int = 200) -> Any:
    if "consumer" not in query:
        query += "&consumer=c"
    return await served.ask("POST", f"{BILLING}/receive?wait=10{query}", status)


def payloads(answer: Any) -> list[str]:
    return [message["payload"] for message in answer["messages"]]


def test_messages_are_received_and_acknowledged_for_good(tmp_path: Path) -> None:
    async def first(served: Served) -> None:
        await served.create("orders", 2)
        await served.store("orders", "a", "b", "c", query="?partition=0")
        await served.store("orders", "d", query="?partition=1")
        told = await served.ask("PUT", f"{BILLING}?type=shared&offset=earliest", 201)
        assert (told["type"], told["lag"], told["created"]) == ("shared", 4, True)
        again = await served.ask("PUT", f"{BILLING}?type=shared&offset=latest")
        assert (again["lag"], again["created"]) == (4, False)

        got: list[Any] = []
        ranges: list[str] = []
        while len(got) < 4:
            answer = await receive(served)
            got += answer["messages"]
            ranges.append(answer["ack"])
        assert sorted((each["partition"], each["offset"], each["payload"]) for each in got) == [
            (0, 0, "a"),
            (0, 1, "b"),
            (0, 2, "c"),
            (1, 0, "d"),
        ]
        assert {each["deliveries"] for each in got} == {1}
        assert sorted(",".join(ranges).split(",")) == ["0:0-2", "1:0"]
        assert await served.ask("POST", f"{BILLING}/ack?offsets=0:0,0:2") == {"acknowledged": 2}
        assert (await served.ask("GET", BILLING))["lag"] == 2

    async def later(served: Served) -> None:
        """This runs in another process."""
        assert (await served.ask("GET", BILLING))["lag"] == 2
        got: list[str] = []
        while len(got) < 2:
            answer = await receive(served)
            got += payloads(answer)
            await served.ask("POST", f"{BILLING}/ack", content=answer["ack"])
        assert sorted(got) == ["b", "d"]
        assert (await served.ask("GET", BILLING))["lag"] == 0
        assert (await served.ask("POST", f"{BILLING}/receive?wait=0"))["messages"] == []

    serving(tmp_path, first)
    serving(tmp_path, later)


@pytest.mark.parametrize(
    ("start", "expected"),
    [("", ["e"]), ("&offset=latest", ["e"]), ("&offset=2", ["c", "d", "e"]), ("&time=1970-01-01", list("abcde"))],
)
def test_a_subscription_begins_anywhere(tmp_path: Path, start: str, expected: list[str]) -> None:
    async def use(served: Served) -> None:
        await served.create("orders")
        await served.store("orders", *"abcd")
        await served.ask("PUT", f"{BILLING}?type=exclusive{start}", 201)
        await served.store("orders", "e")
        got: list[str] = []
        while len(got) < len(expected):
            answer = await receive(served)
            got += payloads(answer)
            await served.ask("POST", f"{BILLING}/ack?offsets={answer['ack']}")
        assert got == expected

    serving(tmp_path, use)


def test_what_is_refused_comes_again(tmp_path: Path) -> None:
    async def use(served: Served) -> None:
        await served.create("orders")
        await served.store("orders", "a")
        await served.ask("PUT", f"{BILLING}?offset=earliest", 201)
        assert [each["deliveries"] for each in (await receive(served))["messages"]] == [1]
        assert await served.ask("POST", f"{BILLING}/nack?offsets=0:0&reason=soon") == {"refused": 1}
        assert [each["deliveries"] for each in (await receive(served))["messages"]] == [2]

    settings = {"orders": {"subscriptions": {"redelivery_delay_seconds": 0.01}}}
    serving(tmp_path, use, topics=settings)


def test_a_subscription_goes_on_elsewhere(tmp_path: Path) -> None:
    async def use(served: Served) -> None:
        await served.create("orders")
        await served.store("orders", *"abcde")
        await served.ask("PUT", f"{BILLING}?offset=latest", 201)
        assert (await served.ask("POST", f"{BILLING}/seek?offset=3"))["lag"] == 2
        assert payloads(await receive(served)) == ["d", "e"]
        assert (await served.ask("POST", f"{BILLING}/seek?offset=0"))["lag"] == 5
        assert payloads(await receive(served, "&limit=1")) == ["a"]
        await served.ask("PUT", "/topics/two?partitions=2", 201)
        await served.store("two", *"abcde", query="?partition=0")
        await served.store("two", *"abcde", query="?partition=1")
        await served.ask("PUT", "/topics/two/subscriptions/s", 201)
        assert (await served.ask("POST", "/topics/two/subscriptions/s/seek?offset=1:3"))["partitions"] == [
            {"partition": 0, "lag": 0},
            {"partition": 1, "lag": 2},
        ]
        assert "Say where to go on" in (await served.ask("POST", f"{BILLING}/seek", 400))["error"]
        assert "offset 9" in (await served.ask("POST", f"{BILLING}/seek?offset=9", 400))["error"]

    serving(tmp_path, use)


def test_messages_that_are_gone_are_told_with_the_first_that_is_left(tmp_path: Path) -> None:
    async def before(served: Served) -> None:
        await served.create("orders")
        await served.store("orders", *"abcd")
        served.seal("orders")
        await served.store("orders", "e")
        await served.ask("PUT", f"{BILLING}?offset=earliest", 201)

    async def after(served: Served) -> None:
        served.lose("orders", before=4)
        assert (await receive(served, status=410))["first_offset"] == 4
        assert (await served.ask("POST", f"{BILLING}/seek?offset=1", 410))["first_offset"] == 4
        await served.ask("POST", f"{BILLING}/seek?offset=earliest")
        assert payloads(await receive(served)) == ["e"]

    serving(tmp_path, before)
    serving(tmp_path, after)


def test_messages_as_arrow(tmp_path: Path) -> None:
    async def use(served: Served) -> None:
        await served.create("orders")
        await served.store("orders", *"abc")
        await served.ask("PUT", f"{BILLING}?offset=1", 201)
        answer = await served.client.post(f"{BILLING}/receive?consumer=c", headers={"accept": ARROW_STREAM})
        table = pa.ipc.open_stream(answer.content).read_all()
        assert table["payload"].to_pylist() == [b"b", b"c"]
        assert table["_offset"].to_pylist() == [1, 2]
        assert answer.headers["x-frazil-ack"] == "0:1-2"

    serving(tmp_path, use)


def test_consumers_share_or_are_kept_out(tmp_path: Path) -> None:
    async def use(served: Served) -> None:
        await served.create("orders")
        await served.ask("PUT", BILLING, 201)
        waiting = asyncio.create_task(receive(served, "&consumer=one"))
        while not (await served.ask("GET", BILLING))["consumers"]:
            await asyncio.sleep(0.01)
        assert "consumer 'one' has it" in (await receive(served, "&consumer=two", 409))["error"]
        again = asyncio.create_task(receive(served, "&consumer=one"))
        with pytest.raises(AssertionError, match="taken this session over"):
            await waiting
        await served.store("orders", "a")
        assert payloads(await again) == ["a"]

    serving(tmp_path, use)


def test_a_consumer_leaves(tmp_path: Path) -> None:
    async def use(served: Served) -> None:
        await served.create("orders")
        await served.store("orders", "a")
        await served.ask("PUT", f"{BILLING}?offset=earliest", 201)
        assert payloads(await receive(served, "&consumer=one")) == ["a"]
        await receive(served, "&consumer=two", 409)
        assert (await served.ask("POST", f"{BILLING}/leave?consumer=one"))["left"] is True
        assert (await served.ask("POST", f"{BILLING}/leave?consumer=one"))["left"] is False
        assert payloads(await receive(served, "&consumer=two")) == ["a"]

    serving(tmp_path, use)


def test_a_session_that_somebody_took_over_can_begin_anew(tmp_path: Path) -> None:
    async def use(served: Served) -> None:
        await served.create("orders")
        await served.store("orders", "a")
        await served.ask("PUT", f"{BILLING}?offset=earliest", 201)
        assert payloads(await receive(served)) == ["a"]
        other = (await served.part._topics().subscriptions.existing("orders", "billing")).join("c")
        await receive(served, status=409)
        other.close()
        assert payloads(await receive(served)) == ["a"]

    serving(tmp_path, use)


def test_nothing_to_acknowledge_is_no_error_and_a_part_of_what_is_wrong_is_not_done(tmp_path: Path) -> None:
    async def use(served: Served) -> None:
        await served.create("orders")
        await served.store("orders", *"abc")
        await served.ask("PUT", f"{BILLING}?offset=earliest", 201)
        await receive(served)
        assert await served.ask("POST", f"{BILLING}/ack?offsets=") == {"acknowledged": 0}
        await served.ask("POST", f"{BILLING}/ack?offsets=0:0,0:1,0:999", 400)
        assert (await served.ask("GET", BILLING))["lag"] == 3

    serving(tmp_path, use)


def test_what_is_deleted_while_somebody_asks_for_it_stays_deleted(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    slow = Ownership.delete

    def delete(self: Ownership) -> None:
        time.sleep(0.3)
        slow(self)

    async def use(served: Served) -> None:
        monkeypatch.setattr(Ownership, "delete", delete)
        await served.create("orders")
        await served.ask("PUT", BILLING, 201)

        async def poll() -> None:
            while True:
                answer = await served.client.post(f"{BILLING}/receive?wait=0&consumer=c")
                assert answer.status_code in (200, 404), answer.text
                await asyncio.sleep(0.01)

        polling = asyncio.create_task(poll())
        await asyncio.sleep(0.1)
        assert (await served.ask("DELETE", BILLING))["deleted"] is True
        await asyncio.sleep(0.1)
        assert not polling.done()
        polling.cancel()
        await served.ask("GET", BILLING, 404)

    serving(tmp_path, use)


def test_what_a_client_that_has_gone_did_not_get_goes_to_the_next(tmp_path: Path) -> None:
    async def use(served: Served) -> None:
        await served.create("orders")
        await served.ask("PUT", f"{BILLING}?type=shared", 201)
        with pytest.raises(httpx.ReadTimeout):
            await served.client.post(f"{BILLING}/receive?consumer=one", timeout=0.3)
        await served.store("orders", "a")
        assert [each["deliveries"] for each in (await receive(served, "&consumer=two"))["messages"]] == [1]

    serving(tmp_path, use)


def test_one_for_each_partition_as_clients_of_danube_have_them(tmp_path: Path) -> None:
    async def use(served: Served) -> None:
        await served.create("orders", 2)
        await served.store("orders", "a", "b", query="?partition=0")
        await served.store("orders", "c", query="?partition=1")
        told = await served.ask("PUT", f"{BILLING}?type=key_shared&offset=earliest&per_partition=true", 201)
        assert (told["lag"], told["type"]) == (3, "key_shared")
        first, second = (f"/topics/orders-part-{each}/subscriptions/billing" for each in range(2))
        assert payloads(await served.ask("POST", f"{first}/receive?consumer=c")) == ["a", "b"]
        assert payloads(await served.ask("POST", f"{second}/receive?consumer=c")) == ["c"]
        assert "one for each partition: name /frazil/orders-part-0" in (await receive(served, status=404))["error"]
        assert "is one for each partition" in (await served.ask("PUT", f"{BILLING}?type=shared", 409))["error"]
        assert (await served.ask("PUT", f"{BILLING}?per_partition=true"))["type"] == "key_shared"
        assert (await served.ask("POST", f"{BILLING}/seek?offset=1"))["lag"] == 1
        assert (await served.ask("DELETE", BILLING))["deleted"] is True
        for each in (first, second, BILLING):
            await served.ask("DELETE", each, 404)

    serving(tmp_path, use)


def test_metrics(tmp_path: Path) -> None:
    async def use(served: Served) -> None:
        await served.create("orders", 2)
        await served.store("orders", *"abc", query="?partition=0")
        await served.ask("PUT", f"{BILLING}?offset=earliest", 201)
        assert len((await receive(served))["messages"]) == 3
        await served.ask("POST", f"{BILLING}/ack?offsets=0:0")
        lines = (await served.client.get("/metrics")).text.splitlines()
        one = '{subscription="billing",topic="orders"}'
        for expected in (
            'frazil_subscription_lag{partition="0",subscription="billing",topic="orders"} 2.0',
            f"frazil_subscription_unacknowledged{one} 2.0",
            f"frazil_subscription_consumers{one} 1.0",
            f"frazil_subscription_delivered_total{one} 3.0",
            f"frazil_subscription_redelivered_total{one} 0.0",
            f"frazil_subscription_dead_letters_total{one} 0.0",
            f"frazil_subscription_unwanted_total{one} 0.0",
        ):
            assert expected in lines

    serving(tmp_path, use)


def test_deleted(tmp_path: Path) -> None:
    async def use(served: Served) -> None:
        await served.create("orders")
        await served.ask("PUT", BILLING, 201)
        assert (await served.ask("DELETE", BILLING))["deleted"] is True
        for method, path in [("DELETE", ""), ("GET", ""), ("POST", "/receive"), ("POST", "/ack?offsets=0:0")]:
            assert "no subscription 'billing'" in (await served.ask(method, f"{BILLING}{path}", 404))["error"]

        await served.ask("PUT", BILLING, 201)
        waiting = asyncio.create_task(receive(served, status=404))
        while not (await served.ask("GET", BILLING))["consumers"]:
            await asyncio.sleep(0.01)
        await served.ask("DELETE", "/topics/orders?drop_table=true")
        assert "was deleted" in (await waiting)["error"]

    serving(tmp_path, use)


@pytest.mark.parametrize(
    ("method", "path", "status", "reason"),
    [
        ("PUT", "?type=best", 400, "type is exclusive, shared, failover, key_shared, not 'best'"),
        ("PUT", "?start=0", 400, "'start' is not understood here"),
        ("PUT", "?type=shared", 409, "is of type exclusive, not shared"),
        ("PUT", "?offset=7", 400, "offset 7"),
        ("POST", "/receive", 400, "Say who consumes, consumer=NAME"),
        ("POST", "/receive?limit=0", 400, "limit is a number from 1"),
        ("POST", "/receive?wait=100", 400, "wait is a number from 0 to 60"),
        ("POST", "/ack", 400, "Say which messages"),
        ("POST", "/ack?offsets=1", 400, "like 0:15-20,1:7, not '1'"),
        ("POST", "/ack?offsets=0:3-1", 400, "like 0:15-20,1:7, not '0:3-1'"),
        ("POST", "/ack?offsets=0:0", 400, "Offset 0 of partition 0 was not delivered"),
        ("POST", "/ack?offsets=4:0", 400, "no partition 4"),
        ("POST", "/nack?offsets=0:0", 400, "Offset 0 of partition 0 was not delivered"),
        ("POST", "/nack?offsets=0:0&delay=-1", 400, "delay is a number"),
        ("POST", "/nack?offsets=0:0&delay=61", 400, "delay is a number from 0 to 60"),
    ],
)
def test_what_is_refused(tmp_path: Path, method: str, path: str, status: int, reason: str) -> None:
    async def use(served: Served) -> None:
        await served.create("orders")
        await served.store("orders", "a")
        await served.ask("PUT", f"{BILLING}?offset=earliest", 201)
        assert reason in (await served.ask(method, f"{BILLING}{path}", status))["error"]

    serving(tmp_path, use)
