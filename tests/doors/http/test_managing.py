from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pytest

from frazil.topics.read.starts import EARLIEST
from frazil.topics.subscriptions.options import Kind
from tests.doors.http.support import Served, serving


def test_topics_come_and_go(tmp_path: Path) -> None:
    async def use(served: Served) -> None:
        await served.create("shop.orders", 2)
        await served.create("hello")
        same = {"topic": "shop.orders", "partitions": 2, "created": False}
        assert await served.ask("PUT", "/topics/shop.orders") == same
        assert await served.ask("PUT", "/topics/shop.orders?partitions=2") == same
        assert "not 3" in (await served.ask("PUT", "/topics/shop.orders?partitions=3", 409))["error"]
        listed = await served.ask("GET", "/topics")
        assert listed == {"topics": [{"topic": "hello", "partitions": 1}, {"topic": "shop.orders", "partitions": 2}]}
        await served.store("hello", "a", "b")
        assert "drop_table=true" in (await served.ask("DELETE", "/topics/hello", 400))["error"]
        gone = await served.ask("DELETE", "/topics/hello?drop_table=false")
        assert gone == {"topic": "hello", "messages": 2, "unmoved": 2, "table": "kept"}
        await served.ask("GET", "/topics/hello", 404)
        await served.ask("DELETE", "/topics/hello?drop_table=false", 404)
        assert [each["topic"] for each in (await served.ask("GET", "/topics"))["topics"]] == ["shop.orders"]

    serving(tmp_path, use)


def test_topics_of_other_doors_are_not_of_messages(tmp_path: Path) -> None:
    async def use(served: Served) -> None:
        batch = pa.record_batch({"id": [1]})
        served.log.writer("rows", batch.schema).append(batch)
        assert (await served.ask("GET", "/topics"))["topics"] == []
        await served.ask("GET", "/topics/rows", 409)
        await served.ask("POST", "/topics/rows", 409, content=b"x")
        assert "not one of messages" in (await served.ask("PUT", "/topics/rows", 409))["error"]

    serving(tmp_path, use)


@pytest.mark.parametrize("partitions", ["0", "10001", "two", "-1"])
def test_wrong_numbers_of_partitions(tmp_path: Path, partitions: str) -> None:
    async def use(served: Served) -> None:
        told = await served.ask("PUT", f"/topics/orders?partitions={partitions}", 400)
        assert "partitions is a number from 1 to 10000" in told["error"]

    serving(tmp_path, use)


def test_stats(tmp_path: Path) -> None:
    async def use(served: Served) -> None:
        await served.create("orders", 2)
        await served.store("orders", "a", "b", query="?partition=1")
        told = await served.ask("GET", "/topics/orders/stats")
        assert (told["message_count"], told["hot_messages"], told["cold_messages"]) == (2, 2, 0)
        assert told["bytes_stored"] == told["hot_bytes"] > 0
        assert told["partitions"] == [
            {
                "partition": 0,
                "first_offset": 0,
                "last_offset": None,
                "next_offset": 0,
                "committed_offset": 0,
                "messages": 0,
                "hot_messages": 0,
            },
            {
                "partition": 1,
                "first_offset": 0,
                "last_offset": 1,
                "next_offset": 2,
                "committed_offset": 0,
                "messages": 2,
                "hot_messages": 2,
            },
        ]
        await served.ask("GET", "/topics/nope/stats", 404)
        await served.ask("GET", "/topics/nope/subscriptions", 404)

    serving(tmp_path, use)


def test_subscriptions_are_told_with_their_lag_also_when_nobody_serves_them(tmp_path: Path) -> None:
    async def subscribe(served: Served) -> None:
        await served.create("orders", 2)
        await served.store("orders", "a", "b", query="?partition=0")
        await served.store("orders", "c", query="?partition=1")
        subscriptions = served.part._topics().subscriptions
        await subscriptions.subscribe("orders", "billing", Kind.SHARED, EARLIEST)
        await subscriptions.subscribe("orders-part-1", "one", Kind.EXCLUSIVE, EARLIEST)
        assert await served.ask("GET", "/topics/orders/subscriptions") == _expected(True)

    async def look(served: Served) -> None:
        assert await served.ask("GET", "/topics/orders/subscriptions") == _expected(False)
        await served.store("orders", "d", query="?partition=1")
        told = (await served.ask("GET", "/topics/orders/stats"))["subscriptions"]
        assert [(each["subscription"], each["lag"]) for each in told] == [("billing", 4), ("one", 2)]

    serving(tmp_path, subscribe)
    serving(tmp_path, look)


def _expected(served_here: bool) -> dict[str, object]:
    common = {"served_here": served_here, "consumers": 0}
    return {
        "topic": "orders",
        "subscriptions": [
            {
                "subscription": "billing",
                "type": "shared",
                **common,
                "lag": 3,
                "partitions": [{"partition": 0, "lag": 2}, {"partition": 1, "lag": 1}],
            },
            {
                "subscription": "one",
                "type": "exclusive",
                **common,
                "lag": 1,
                "partitions": [{"partition": 1, "lag": 1}],
            },
        ],
    }


def test_a_topic_whose_table_would_be_another_ones_is_refused(tmp_path: Path) -> None:
    async def use(served: Served) -> None:
        # With settings of its own, the table has another name than the topic.
        await served.ask("PUT", "/topics/visits", 201)
        refused = await served.ask("PUT", "/topics/seen", 409)
        assert "frazil.visits" not in refused["error"]
        assert "is one of topic 'looked'" in refused["error"]
        await served.ask("PUT", "/topics/looked", 201)
        await served.store("looked", "one")
        again = await served.ask("PUT", "/topics/visits__dead_letter", 409)
        assert "frazil.visits__dead_letter would be a table of it, and is one of topic 'visits'" in again["error"]
        assert {each["topic"] for each in (await served.ask("GET", "/topics"))["topics"]} == {"visits", "looked"}
        # A name that is free again may be taken, and then conflicts with the topic that had it.
        await served.ask("DELETE", "/topics/visits?drop_table=true")
        await served.ask("PUT", "/topics/visits__dead_letter", 201)
        await served.ask("PUT", "/topics/visits", 409)

    serving(tmp_path, use, topics={"looked": {"table": {"name": "seen"}}})
