from __future__ import annotations

import asyncio
import base64
import json
import struct
from collections.abc import AsyncIterator
from pathlib import Path

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from frazil.doors.http import arrow_body, json_lines
from frazil.errors import InvalidMessage, MemoryAlignment
from frazil.topics.message_limits import MOST_BYTES
from frazil.topics.messages import MESSAGE, from_batch
from tests.doors.http.support import Served, encoded, serving
from tests.examples import examples


def test_a_message_has_all_that_was_said_of_it(tmp_path: Path) -> None:
    async def use(served: Served) -> None:
        await served.create("orders", 3)
        stored = await served.ask(
            "POST",
            "/topics/orders?key=a&publish_time=2026-01-02T03:04:05.006Z&producer_name=till&schema_id=7&schema_version=2",
            content=b"\x00\xff",
            headers={"X-Frazil-Attribute-Shop": "nörth".encode(), "content-type": "image/png"},
        )
        assert stored == {"topic": "orders", "partition": stored["partition"], "offset": 0, "duplicate": False}
        (message,) = (await served.ask("GET", "/topics/orders"))["messages"]
        assert message == {
            "partition": stored["partition"],
            "offset": 0,
            "publish_time": "2026-01-02T03:04:05.006Z",
            "key": "a",
            "payload_base64": base64.b64encode(b"\x00\xff").decode(),
            "attributes": {"shop": "nörth"},
            "producer_name": "till",
            "schema_id": 7,
            "schema_version": 2,
        }
        again = await served.ask("POST", "/topics/orders?key=a", content=b"more")
        assert (again["partition"], again["offset"]) == (stored["partition"], 1)

    serving(tmp_path, use)


def test_json_lines_go_to_the_partitions_of_their_keys(tmp_path: Path) -> None:
    lines = [{"payload": f"{number}", "key": f"k{number % 5}", "attributes": {"N": "é"}} for number in range(50)]

    async def use(served: Served) -> None:
        await served.create("shop.orders", 4)
        body = "\n\r\n".join(json.dumps(line) for line in lines)
        stored = await served.lines("shop.orders", body)
        assert (stored["topic"], stored["messages"]) == ("shop.orders", 50)
        assert sum(each["last_offset"] - each["first_offset"] + 1 for each in stored["partitions"]) == 50
        found = (await served.ask("GET", "/topics/shop.orders"))["messages"]
        assert sorted(int(message["payload"]) for message in found) == list(range(50))
        homes: dict[str, int] = {}
        for message in found:
            assert homes.setdefault(message["key"], message["partition"]) == message["partition"]
            assert message["attributes"] == {"N": "é"}
        for partition in range(4):
            numbers = [int(each["payload"]) for each in found if each["partition"] == partition]
            assert numbers == sorted(numbers)

    serving(tmp_path, use)


def test_arrow_in_and_out(tmp_path: Path) -> None:
    batch = pa.record_batch(
        {
            "payload": pa.array(["a", "b"], pa.large_string()),
            "attributes": pa.array([[("x", "y")], None], pa.map_(pa.string(), pa.string())),
            "routing_key": pa.array([None, "mine"]),
        }
    )

    async def use(served: Served) -> None:
        await served.create("orders")
        stored = await served.arrow("orders", encoded(batch), query="?key=given")
        assert stored["partitions"] == [
            {"partition": 0, "first_offset": 0, "last_offset": 1, "messages": 2, "duplicate": False}
        ]
        accept = {"accept": "application/vnd.apache.arrow.stream"}
        answer = await served.client.get("/topics/orders", headers=accept)
        assert answer.headers["x-frazil-next-offset"] == "0:2"
        rows = pa.ipc.open_stream(answer.content).read_all()
        assert rows.column_names == [*MESSAGE.names, "_log_partition", "_offset"]
        assert rows["payload"].to_pylist() == [b"a", b"b"]
        assert rows["routing_key"].to_pylist() == ["given", "mine"]
        assert rows["_offset"].to_pylist() == [0, 1]

    serving(tmp_path, use)


def test_what_a_producer_sends_again_is_stored_once(tmp_path: Path) -> None:
    async def use(served: Served) -> None:
        await served.create("orders", 2)
        first = await served.store("orders", "a", "b", query="?producer=p&sequence=1")
        again = await served.store("orders", "a", "b", query="?producer=p&sequence=1")
        assert [{**run, "duplicate": True} for run in first["partitions"]] == again["partitions"]
        await served.store("orders", "c", query="?producer=p&sequence=2")
        assert sorted(await served.payloads("/topics/orders")) == ["a", "b", "c"]
        told = await served.lines("orders", '{"payload": "d"}', 400, query="?producer=p&sequence=1")
        assert "needs a number of its own" in told["error"]

    serving(tmp_path, use)


GOOD = pa.record_batch({"payload": [b"x" * 2000]})
DICTIONARY = pa.record_batch({"payload": pa.array([b"x"]).dictionary_encode()})
VIEWS = pa.record_batch({"payload": pa.array([b"x" * 100], pa.binary_view())})
UNKNOWN = pa.record_batch({"payload": [b"x"], "colour": ["red"]})
NULLS = pa.record_batch({"payload": pa.array([b"x", None])})
SIGNED = pa.record_batch({"payload": [b"x"], "producer_id": ["me"], "sequence": [1]})
MISALIGNED = encoded(GOOD).replace(struct.pack("<qq", 8, 2000), struct.pack("<qq", 9, 1999))
LATE = pa.record_batch({"payload": [b"x"], "publish_time": pa.array([2**62], pa.timestamp("ms", "UTC"))})


@pytest.mark.parametrize(
    ("body", "reason"),
    [
        (b"", "is not an Arrow stream"),
        (b"this is no Arrow at all, is it?", "is not an Arrow stream"),
        (encoded(GOOD)[:-1500], "is not an Arrow stream"),
        (MISALIGNED, "did not start on 8-byte aligned offset"),
        (encoded(GOOD, compression="zstd"), "is compressed"),
        (encoded(GOOD, compression="lz4"), "is compressed"),
        (encoded(DICTIONARY), "messages have binary"),
        (encoded(VIEWS), "messages have binary"),
        (encoded(UNKNOWN), "no column 'colour'"),
        (encoded(pa.record_batch({"routing_key": ["a"]})), "need a column 'payload'"),
        (encoded(NULLS), "no payload"),
        (encoded(SIGNED), "name the producer in the request"),
        (encoded(LATE), "years have four digits"),
        (encoded(GOOD.slice(0, 0)), "no messages were given"),
    ],
)
def test_arrow_that_is_no_message_is_refused(tmp_path: Path, body: bytes, reason: str) -> None:
    async def use(served: Served) -> None:
        await served.create("orders")
        assert reason in (await served.arrow("orders", body, 400))["error"]
        assert await served.payloads("/topics/orders") == []

    serving(tmp_path, use)


@pytest.mark.parametrize("place", range(0, len(encoded(GOOD)) - 2000, 7))
def test_bytes_that_are_wrong_somewhere_never_break_the_reader(place: int) -> None:
    """The body is still a stream of messages, or it is refused with the reason."""
    body = bytearray(encoded(GOOD))
    body[place] ^= 0xFF
    try:
        found = arrow_body.parse(bytes(body))
    except (InvalidMessage, MemoryAlignment):
        return
    found.validate(full=True)


def test_buffers_begin_where_arrow_lets_them_begin() -> None:
    with pytest.raises(MemoryAlignment, match="not an Arrow stream that can be read: Buffer"):
        arrow_body.parse(MISALIGNED)


@pytest.mark.parametrize("rows", [100, 1 << 28, 1 << 62])
def test_a_column_of_nothing_has_no_more_rows_than_there_are_bytes(rows: int) -> None:
    """A few bytes could stand for gigabytes, because a null column takes no bytes however long it is."""
    body = encoded(pa.RecordBatch.from_arrays([pa.nulls(777_777)], names=["payload"]))
    body = body.replace(struct.pack("<q", 777_777), struct.pack("<q", rows))
    with pytest.raises(InvalidMessage, match=f"says that it has {rows:,} messages"):
        arrow_body.parse(body)


def test_a_stream_that_begins_with_no_schema() -> None:
    """Arrow would take the batch for a schema, and crash the process."""
    reader = pa.BufferReader(encoded(GOOD))
    pa.ipc.read_message(reader)
    with pytest.raises(InvalidMessage, match="begins with a schema, not with a record batch"):
        arrow_body.parse(reader.read())


def test_no_column_comes_twice() -> None:
    with pytest.raises(InvalidMessage, match="comes twice"):
        arrow_body.parse(encoded(pa.RecordBatch.from_arrays([pa.array([b"a"])] * 2, names=["payload"] * 2)))


def test_batches_with_nothing_in_them_are_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(arrow_body, "MOST_BATCHES", 10)

    def stream(batches: int) -> bytes:
        sink = pa.BufferOutputStream()
        with pa.ipc.new_stream(sink, MESSAGE) as writer:
            for _ in range(batches):
                writer.write_batch(pa.RecordBatch.from_pylist([], MESSAGE))
        found: bytes = sink.getvalue().to_pybytes()
        return found

    assert len(arrow_body.parse(stream(10))) == 0
    with pytest.raises(InvalidMessage, match="more than 10 batches"):
        arrow_body.parse(stream(11))


@pytest.mark.parametrize(
    ("line", "reason"),
    [
        ("{", "Line 2 is not JSON"),
        ("[" * 100_000, "Line 2 is not JSON"),
        ("7", "Line 2: a message is an object"),
        ("{}", "either a 'payload' of text or a 'payload_base64'"),
        ('{"payload": "a", "payload_base64": "YQ=="}', "either a 'payload' of text or a 'payload_base64'"),
        ('{"payload": 7}', "payload is text, not 7"),
        ('{"payload": "\\ud800"}', "half a character"),
        ('{"payload_base64": "%"}', "is not base64"),
        ('{"payload": "a", "colour": "red"}', "'colour' is not a part of a message; there are payload, "),
        ('{"payload": "a", "attributes": {"n": 1}}', "attributes are an object of texts"),
        ('{"payload": "a", "publish_time": "soon"}', "publish_time is a time like 2026-"),
        ('{"payload": "a", "publish_time": 999999999999999}', "publish_time is a time like 2026-"),
        ('{"payload": "a", "schema_id": 1.5}', "schema_id is a whole number"),
        ('{"payload": "a", "schema_id": 9223372036854775808}', "the largest that can be stored is"),
    ],
)
def test_a_line_that_is_no_message_is_named(tmp_path: Path, line: str, reason: str) -> None:
    async def use(served: Served) -> None:
        await served.create("orders")
        told = await served.lines("orders", f'{{"payload": "fine"}}\n{line}\n', 400)
        assert reason in told["error"]
        assert await served.payloads("/topics/orders") == []

    serving(tmp_path, use)


TEXT = st.text(st.characters(exclude_categories=["Cs"]), max_size=5)
LINE = st.fixed_dictionaries(
    {"payload": TEXT},
    optional={"key": TEXT, "attributes": st.dictionaries(TEXT, TEXT, max_size=2), "producer_name": TEXT},
)


@given(st.lists(LINE, max_size=20), st.booleans())
@settings(max_examples=examples(100), deadline=None)
def test_lines_become_the_messages_they_are(lines: list[dict[str, object]], escaped: bool) -> None:
    body = "\n".join(json.dumps(line, ensure_ascii=escaped) for line in lines).encode()
    found = from_batch(json_lines.parse(body, 5))
    assert [
        {"payload": each.payload.decode(), "key": each.routing_key, "producer_name": each.producer_name}
        for each in found
    ] == [
        {"payload": line["payload"], "key": line.get("key"), "producer_name": line.get("producer_name", "")}
        for line in lines
    ]
    assert [each.attributes for each in found] == [line.get("attributes", {}) for line in lines]
    assert {each.publish_time_ms for each in found} <= {5}


def test_many_lines_keep_their_order() -> None:
    body = "\n".join(f'{{"payload": "{number}"}}' for number in range(10_000)).encode()
    assert json_lines.parse(body, 0)["payload"].to_pylist() == [str(number).encode() for number in range(10_000)]


def test_what_is_too_large_is_refused_before_it_is_stored(tmp_path: Path) -> None:
    large = "x" * (MOST_BYTES + 1)

    async def use(served: Served) -> None:
        await served.create("orders")
        assert "of at most" in (await served.ask("POST", "/topics/orders", 413, content=large))["error"]
        lines = f'{{"payload": "small"}}\n{json.dumps({"payload": "", "attributes": {"a": large}})}'
        assert "Message 2 of 2" in (await served.lines("orders", lines, 413))["error"]
        many = json.dumps({"payload": "x" * 1_000_000}) + "\n"
        assert "log.max_append_mb" in (await served.lines("orders", many * 9, 413))["error"]
        assert await served.payloads("/topics/orders") == []
        assert (await served.lines("orders", many * 6))["messages"] == 6

    serving(tmp_path, use, log={"max_append_mb": 8})


def test_requests_that_would_fill_memory_are_told_to_come_back(tmp_path: Path) -> None:
    async def use(served: Served) -> None:
        await served.create("orders")
        sending = asyncio.Event()

        async def body() -> AsyncIterator[bytes]:
            yield b"x" * 1_000_000
            await sending.wait()
            yield b"x"

        others = [asyncio.create_task(served.ask("POST", "/topics/orders", content=body())) for _ in range(4)]
        while served.part._api._room.nbytes < 4_000_000:
            await asyncio.sleep(0.01)
        answer = await served.client.post("/topics/orders", content=b"x" * 900_000)
        assert answer.status_code == 429
        assert answer.headers["retry-after"] == "1"
        sending.set()
        await asyncio.gather(*others)
        await served.ask("POST", "/topics/orders", content=b"x" * 900_000)

    serving(tmp_path, use, log={"max_append_mb": 1})


@pytest.mark.parametrize(
    ("path", "headers", "status", "reason"),
    [
        ("/topics/nope", {}, 404, "PUT /topics/NAME creates"),
        ("/topics/orders?partition=2", {}, 400, "has no partition 2: it has 2, from 0 on"),
        ("/topics/orders?partition=-1", {}, 400, "partition is a number"),
        ("/topics/orders-part-1?partition=0", {}, 400, "is partition 1, not 0"),
        ("/topics/orders?producer=p", {}, 400, "gives both"),
        ("/topics/orders?producer=p&sequence=x", {}, 400, "sequence is a number"),
        ("/topics/orders?keys=p", {}, 400, "there are key, partition, producer, sequence, publish_time"),
        ("/topics/orders?publish_time=1", {"content-type": "application/x-ndjson"}, 400, "there are key, partition"),
        ("/topics/orders", {"content-encoding": "gzip"}, 415, "'gzip'"),
        ("/topics/a.b.c", {}, 400, "more than one dot"),
        ("/topics/-x", {}, 400, "do not begin with a dash"),
    ],
)
def test_wrong_requests_say_what_is_right(
    tmp_path: Path, path: str, headers: dict[str, str], status: int, reason: str
) -> None:
    async def use(served: Served) -> None:
        await served.create("orders", 2)
        assert reason in (await served.ask("POST", path, status, content=b"x", headers=headers))["error"]

    serving(tmp_path, use)


def test_a_partition_may_be_named(tmp_path: Path) -> None:
    async def use(served: Served) -> None:
        await served.create("orders", 3)
        assert (await served.ask("POST", "/topics/orders?partition=2", content=b"x"))["partition"] == 2
        assert (await served.ask("POST", "/topics/orders-part-1", content=b"y"))["partition"] == 1
        assert await served.payloads("/topics/orders?partition=2") == ["x"]
        assert await served.payloads("/topics/orders-part-1") == ["y"]

    serving(tmp_path, use)
