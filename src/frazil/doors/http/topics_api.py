"""Serves `/topics` over HTTP and everything below it but subscriptions."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable

import pyarrow as pa
from starlette.background import BackgroundTask
from starlette.requests import Request
from starlette.responses import JSONResponse, Response

from frazil.config.model import Config
from frazil.config.sections.section import MIB
from frazil.doors.http import arrow_body, json_lines
from frazil.doors.http.bodies import NDJSON, BodyMemory, complete_messages, content_type
from frazil.doors.http.endpoints import describe_subscriptions, endpoint
from frazil.doors.http.events import EventStream, Streams
from frazil.doors.http.message_rows import join_texts, message_texts, table_of
from frazil.doors.http.pages import Page, cursors_of, probe, read_page
from frazil.doors.http.positions import start_of
from frazil.doors.http.slow_clients import ResponseMemory
from frazil.doors.http.times import parse_time
from frazil.doors.http.topic_json import stored_batch_json, stored_message_json, topic_stats_json
from frazil.errors import FrazilError, InvalidTopic, RequestError, TopicMismatch, TopicNotFound
from frazil.topics.interface import Producer
from frazil.topics.messages import Message, to_batch
from frazil.topics.names import MOST_PARTITIONS
from frazil.topics.read.starts import EARLIEST, LATEST
from frazil.topics.topic_service import Topics
from frazil.web.answers import ARROW_STREAM, problem, refused, rows_answer, wants_arrow
from frazil.web.asgi import AsgiBody
from frazil.web.bodies import BodyIncomplete, BodyStalled, pass_over
from frazil.web.parameters import check_parameters, flag, limit_of, number, optional_number
from frazil.web.ports.contributions import Endpoint

LIMIT = 1000
"""An answer has at most this many messages unless the client says otherwise."""
READS = 8
"""So many answers with messages are made at a time."""
ATTRIBUTE = "x-frazil-attribute-"
"""Headers with this prefix are attributes of a message. HTTP does not preserve the case of their names."""
NEXT_OFFSET = "x-frazil-next-offset"

_PRODUCING = ("key", "partition", "producer", "sequence")
_ONE_MESSAGE = ("publish_time", "producer_name", "schema_id", "schema_version")


class TopicsApi:
    """`topics` returns the topics, or raises while there are none."""

    def __init__(self, config: Config, topics: Callable[[], Topics]) -> None:
        self._topics = topics
        self._room = BodyMemory(config.log.max_append_mb * MIB)
        self._reads = asyncio.Semaphore(READS)
        self._streams = Streams()

    def close(self) -> None:
        """Ends the streams, because their readers would keep the process from stopping."""
        self._streams.close()

    @property
    def endpoints(self) -> list[Endpoint]:
        one = "/topics/{name}"
        return [
            endpoint("GET", "/topics", self.listing, "topics of messages"),
            endpoint("GET", one, self.read, "messages (?offset=|time=&partition=&limit=)"),
            endpoint("POST", one, self.produce, "store a message, JSON lines or an Arrow stream"),
            endpoint("PUT", one, self.create, "create a topic (?partitions=)"),
            endpoint("DELETE", one, self.delete, "delete a topic (?drop_table=)"),
            endpoint("GET", f"{one}/stream", self.stream, "messages as they come, as server-sent events"),
            endpoint("GET", f"{one}/stats", self.stats, "what a topic holds"),
        ]

    # --- topics --------------------------------------------------------------------------------------------

    async def listing(self, request: Request) -> Response:
        check_parameters(request)
        storage = self._topics()
        found = []
        for topic in await storage.list_topics():
            try:
                found.append({"topic": topic, "partitions": await storage.partitions(topic)})
            except (TopicNotFound, TopicMismatch, InvalidTopic):
                # The topic is filled by another door, or was deleted.
                continue
        return JSONResponse({"topics": found})

    async def create(self, request: Request) -> Response:
        check_parameters(request, "partitions")
        name, storage = request.path_params["name"], self._topics()
        given = request.query_params.get("partitions")
        wanted = None if given is None else number(given, "partitions", least=1, most=MOST_PARTITIONS)
        try:
            existed = bool(await storage.partitions(name))
        except TopicNotFound:
            existed = False
        count = await storage.create_topic(name, wanted or 1)
        if wanted is not None and wanted != count:
            raise TopicMismatch(f"Topic {name!r} exists, and has {_partitions(count)}, not {wanted}.")
        made = {"topic": storage.name(name).topic, "partitions": count, "created": not existed}
        return JSONResponse(made, 200 if existed else 201)

    async def delete(self, request: Request) -> Response:
        check_parameters(request, "drop_table")
        if "drop_table" not in request.query_params:
            raise RequestError(
                "Say what becomes of the topic's table: drop_table=true, or drop_table=false to keep it."
            )
        drop = flag(request, "drop_table")
        name, topics = request.path_params["name"], self._topics()
        gone = await topics.delete_topic(name, drop_table=drop)
        return JSONResponse({**gone._asdict(), "table": "dropped" if drop else "kept"})

    async def stats(self, request: Request) -> Response:
        check_parameters(request)
        name, topics = request.path_params["name"], self._topics()
        described = topic_stats_json(await topics.get_topic_stats(name))
        return JSONResponse({**described, "subscriptions": await describe_subscriptions(topics, name)})

    # --- producing -----------------------------------------------------------------------------------------

    async def produce(self, request: Request) -> Response:
        kind = content_type(request)
        many = kind == ARROW_STREAM or kind in NDJSON
        try:
            return await self._produce(request, kind, many)
        except FrazilError as error:
            made_known = isinstance(error, TopicNotFound)
            response = problem(404, f"{error} PUT /topics/NAME creates a topic.") if made_known else refused(error)
            if isinstance(error, BodyStalled | BodyIncomplete):
                response.headers["connection"] = "close"
            else:
                response.background = BackgroundTask(pass_over, AsgiBody(request.scope, request.receive))
            return response

    async def _produce(self, request: Request, kind: str, many: bool) -> Response:
        check_parameters(request, *_PRODUCING, *(() if many else _ONE_MESSAGE))
        name, topics = request.path_params["name"], self._topics()
        partition, producer = optional_number(request, "partition"), _producer(request)
        # This comes before the body is read: if the topic does not exist, the body is not needed.
        await topics.partitions(name)
        key, now = request.query_params.get("key"), topics.log.world.clock.now_ms()

        def batch_of(body: bytes) -> pa.RecordBatch:
            if kind == ARROW_STREAM:
                given = arrow_body.parse(body)
            else:
                given = json_lines.parse(body, now) if many else to_batch([_message(request, body)], now)
            return complete_messages(given, now, key)

        with self._room.reading(request) as body:
            data = await body.read()
            batch = await asyncio.to_thread(batch_of, data) if len(data) > _LITTLE else batch_of(data)
            stored = await topics.store(name, batch, partition=partition, producer=producer)
        topic = topics.name(name).topic
        return JSONResponse(stored_batch_json(topic, stored) if many else stored_message_json(topic, stored))

    # --- reading -------------------------------------------------------------------------------------------

    async def read(self, request: Request) -> Response:
        check_parameters(request, "offset", "time", "partition", "limit")
        given = request.query_params
        start = start_of(given.get("offset"), given.get("time"), None, EARLIEST)
        limit, partition = limit_of(request, LIMIT), optional_number(request, "partition")
        name, storage = request.path_params["name"], self._topics()
        async with ResponseMemory(storage.memory) as response_memory:
            most = response_memory.reserve()
            while True:
                async with self._reads:
                    page = await read_page(await cursors_of(storage, name, partition, start), limit, most)
                    if response_memory.fits(size := page.nbytes):
                        return response_memory.answer(
                            await asyncio.to_thread(_page, request, storage.name(name).topic, page)
                        )
                    del page
                await response_memory.make_room(size)

    async def stream(self, request: Request) -> Response:
        check_parameters(request, "offset", "time", "partition")
        given = request.query_params
        start = start_of(given.get("offset"), given.get("time"), request.headers.get("last-event-id"), LATEST)
        partition = optional_number(request, "partition")
        cursors = await cursors_of(self._topics(), request.path_params["name"], partition, start)
        self._streams.check(cursors)
        if start.kind == "offset":
            await probe(cursors)
        headers = {"cache-control": "no-store", "x-accel-buffering": "no"}
        if request.method == "HEAD":
            return Response(headers=headers, media_type=EventStream.media_type)
        memory = self._topics().memory
        return EventStream(self._streams.events(cursors, memory), memory, headers)


_LITTLE = 16 * 1024
"""A smaller body is parsed faster than it is handed to a thread."""


def _page(request: Request, topic: str, page: Page) -> Response:
    if wants_arrow(request):
        return rows_answer(request, table_of(page.runs), {NEXT_OFFSET: page.next})
    parts = [join_texts(pa.compute.binary_join_element_wise(message_texts(run), ",\n", "")) for run in page.runs]
    messages = b"".join(parts).removesuffix(b",\n")
    described = {"topic": topic, "next": page.next, "at_end": page.at_end}
    body = json.dumps(described, ensure_ascii=False).encode().removesuffix(b"}")
    return Response(
        b"".join((body, b', "messages": [\n' if messages else b', "messages": [', messages, b"]}\n")),
        headers={NEXT_OFFSET: page.next},
        media_type="application/json",
    )


def _producer(request: Request) -> Producer | None:
    given = request.query_params
    if ("producer" in given) != ("sequence" in given):
        raise RequestError(
            "An idempotent producer gives both: producer= and sequence=, which grows with each request."
        )
    return Producer(given["producer"], number(given["sequence"], "sequence")) if "producer" in given else None


def _message(request: Request, body: bytes) -> Message:
    """Makes a message whose payload is the body."""
    given = request.query_params
    attributes = {
        name.removeprefix(ATTRIBUTE): _utf8(value)
        for name, value in request.headers.items()
        if name.startswith(ATTRIBUTE)
    }
    time = given.get("publish_time")
    return Message(
        body,
        None if time is None else parse_time(time, "publish_time"),
        given.get("producer_name", ""),
        attributes,
        schema_id=optional_number(request, "schema_id"),
        schema_version=optional_number(request, "schema_version"),
    )


def _utf8(header: str) -> str:
    """Decodes a header. Headers are bytes, and most clients that go beyond ASCII send UTF-8."""
    try:
        return header.encode("latin-1").decode()
    except UnicodeDecodeError:
        return header


def _partitions(count: int) -> str:
    return "1 partition" if count == 1 else f"{count} partitions"
