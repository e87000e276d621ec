"""Serves durable subscriptions over HTTP: clients create, consume, acknowledge, move and delete them."""

from __future__ import annotations

import asyncio
import json
import re
from collections.abc import Callable, Iterable, Sequence

from starlette.requests import ClientDisconnect, Request
from starlette.responses import JSONResponse, Response

from frazil.doors.http.bodies import BodyMemory
from frazil.doors.http.endpoints import describe_subscriptions, endpoint
from frazil.doors.http.message_rows import message_texts, table_of
from frazil.doors.http.pages import cursors_of, probe
from frazil.doors.http.positions import start_of
from frazil.doors.http.sessions import Sessions
from frazil.doors.http.slow_clients import ResponseMemory
from frazil.errors import RequestError, SubscriptionNotFound
from frazil.topics.read.starts import EARLIEST, LATEST, Start
from frazil.topics.subscriptions.delivery import Delivered
from frazil.topics.subscriptions.delivery_slices import total_bytes
from frazil.topics.subscriptions.options import Kind
from frazil.topics.subscriptions.subscription import Subscription
from frazil.topics.topic_service import Topics
from frazil.web.answers import rows_answer, wants_arrow
from frazil.web.parameters import check_parameters, flag, limit_of, number
from frazil.web.ports.contributions import Endpoint

LIMIT = 100
"""An answer has at most this many messages unless the client says otherwise."""
WAIT_SECONDS, MOST_WAIT_SECONDS = 10, 60
CONSUMER = "http"
"""A shared subscription is consumed under this name if the client gives none."""
ACK = "x-frazil-ack"
_OFFSETS_BYTES = 1024 * 1024
_RANGE = re.compile(r"(\d{1,5}):(\d{1,18})(?:-(\d{1,18}))?", re.ASCII)


class SubscriptionsApi:
    """`topics` returns the topics, or raises while there are none."""

    def __init__(self, topics: Callable[[], Topics]) -> None:
        self._topics = topics
        self._sessions = Sessions()
        self._room = BodyMemory(_OFFSETS_BYTES)

    def close(self) -> None:
        self._sessions.close()

    @property
    def endpoints(self) -> list[Endpoint]:
        one = "/topics/{name}/subscriptions/{subscription}"
        return [
            endpoint("GET", "/topics/{name}/subscriptions", self.listing, "its subscriptions and their lag"),
            endpoint("GET", one, self.show, "a subscription and its lag"),
            endpoint("PUT", one, self.create, "create a subscription (?type=&offset=|time=&per_partition=)"),
            endpoint("DELETE", one, self.delete, "delete a subscription"),
            endpoint("POST", f"{one}/receive", self.receive, "its next messages (?consumer=&limit=&wait=)"),
            endpoint("POST", f"{one}/ack", self.ack, "acknowledge messages (?offsets=)"),
            endpoint("POST", f"{one}/nack", self.nack, "have messages delivered again (?offsets=&delay=&reason=)"),
            endpoint("POST", f"{one}/leave", self.leave, "a consumer goes (?consumer=)"),
            endpoint("POST", f"{one}/seek", self.seek, "go on elsewhere (?offset=|time=)"),
        ]

    # --- subscriptions -----------------------------------------------------------------------------------------

    async def listing(self, request: Request) -> Response:
        check_parameters(request)
        name, topics = request.path_params["name"], self._topics()
        found = await describe_subscriptions(topics, name)
        return JSONResponse({"topic": topics.name(name).topic, "subscriptions": found})

    async def show(self, request: Request) -> Response:
        check_parameters(request)
        return JSONResponse(await self._described(request))

    async def _described(self, request: Request) -> dict[str, object]:
        name, subscription = request.path_params["name"], request.path_params["subscription"]
        for each in await describe_subscriptions(self._topics(), name):
            if each["subscription"] == subscription:
                return each
        raise SubscriptionNotFound(f"Topic {name!r} has no subscription {subscription!r}.")

    async def create(self, request: Request) -> Response:
        check_parameters(request, "type", "offset", "time", "per_partition")
        name, subscription = request.path_params["name"], request.path_params["subscription"]
        start = await self._start(request, LATEST)
        topics, names = self._topics(), [name]
        given = request.query_params.get("type")
        if flag(request, "per_partition"):
            whole = topics.name(name)
            names = [whole.part(each) for each in range(await topics.partitions(name))]
        created = False
        for each in names:
            exists = await topics.subscriptions.exists(each, subscription)
            if exists and given is None:
                continue
            kind = Kind.EXCLUSIVE if given is None else _kind(given)
            await topics.subscriptions.subscribe(each, subscription, kind, start)
            created |= not exists
        return JSONResponse({**await self._described(request), "created": created}, 201 if created else 200)

    async def delete(self, request: Request) -> Response:
        check_parameters(request)
        name, subscription = request.path_params["name"], request.path_params["subscription"]
        await self._topics().subscriptions.delete(name, subscription)
        return JSONResponse({"subscription": subscription, "deleted": True})

    async def seek(self, request: Request) -> Response:
        check_parameters(request, "offset", "time")
        if not {"offset", "time"} & set(request.query_params):
            raise RequestError("Say where to go on: offset=earliest, latest or a number, or time=.")
        start = await self._start(request, EARLIEST)
        name, subscription = request.path_params["name"], request.path_params["subscription"]
        await self._topics().subscriptions.seek(name, subscription, start)
        return JSONResponse(await self._described(request))

    async def _start(self, request: Request, otherwise: Start) -> Start:
        """Returns where to begin, and raises an error if that cannot be read."""
        given = request.query_params
        start = start_of(given.get("offset"), given.get("time"), None, otherwise)
        if start.kind == "offset":
            await probe(await cursors_of(self._topics(), request.path_params["name"], None, start))
        return start

    async def _existing(self, request: Request) -> Subscription:
        found = self._topics().subscriptions.existing
        return await found(request.path_params["name"], request.path_params["subscription"])

    # --- messages ----------------------------------------------------------------------------------------------

    async def receive(self, request: Request) -> Response:
        check_parameters(request, "consumer", "limit", "wait")
        given = request.query_params
        wait = number(given.get("wait", str(WAIT_SECONDS)), "wait", most=MOST_WAIT_SECONDS)
        limit = limit_of(request, LIMIT)
        subscription = await self._existing(request)
        consumer = given.get("consumer", CONSUMER if subscription.options.kind is Kind.SHARED else "")
        if not consumer:
            raise RequestError(
                f"Say who consumes, consumer=NAME: who gets what in a subscription of type "
                f"{subscription.options.kind} depends on it."
            )
        async with ResponseMemory(self._topics().memory) as response_memory:
            runs = await self._received(request, subscription, consumer, limit, wait, response_memory)
            if not response_memory.fits(needed := total_bytes(runs)):
                await response_memory.make_room(needed)
            return response_memory.answer(await asyncio.to_thread(_messages_answer, request, runs))

    async def _received(
        self,
        request: Request,
        subscription: Subscription,
        consumer: str,
        limit: int,
        wait: float,
        response_memory: ResponseMemory,
    ) -> list[Delivered]:
        """Raises `ClientDisconnect` when the client goes before there is a message for it."""
        receiving = asyncio.create_task(
            self._sessions.receive(subscription, consumer, limit, wait, response_memory.reserve)
        )
        gone = asyncio.create_task(_gone(request))
        try:
            await asyncio.wait([receiving, gone], return_when=asyncio.FIRST_COMPLETED)
            if not receiving.done():
                raise ClientDisconnect
            return receiving.result()
        finally:
            receiving.cancel()
            gone.cancel()

    async def leave(self, request: Request) -> Response:
        check_parameters(request, "consumer")
        consumer = request.query_params.get("consumer", CONSUMER)
        left = self._sessions.leave(await self._existing(request), consumer)
        return JSONResponse({"consumer": consumer, "left": left})

    async def ack(self, request: Request) -> Response:
        check_parameters(request, "offsets")
        ranges = await self._offsets(request)
        subscription = await self._existing(request)
        await subscription.ack(ranges)
        return JSONResponse({"acknowledged": _count(ranges)})

    async def nack(self, request: Request) -> Response:
        check_parameters(request, "offsets", "delay", "reason")
        given = request.query_params
        ranges = await self._offsets(request)
        subscription = await self._existing(request)
        # The limit is the topic's `max_redelivery_delay_seconds`.
        delay = number(given.get("delay", "0"), "delay", most=int(subscription.options.max_delay_seconds))
        for partition, start, end in ranges:
            await subscription.nack(partition, start, end, delay=delay, reason=given.get("reason", ""))
        return JSONResponse({"refused": _count(ranges)})

    async def _offsets(self, request: Request) -> list[tuple[int, int, int]]:
        given = request.query_params.get("offsets")
        if given is None:
            with self._room.reading(request) as body:
                given = (await body.read()).decode(errors="replace").strip()
            if not given:
                raise RequestError("Say which messages: offsets=0:15-20,1:7, or the same as the body.")
        return [_parse_range(part.strip()) for part in given.split(",") if given]


async def _gone(request: Request) -> None:
    """Waits until the client has gone."""
    while (await request.receive())["type"] != "http.disconnect":
        pass


def _messages_answer(request: Request, runs: Sequence[Delivered]) -> Response:
    acks = _format_ranges(runs)
    if wants_arrow(request):
        return rows_answer(request, table_of(runs), {ACK: acks})
    head = json.dumps({"ack": acks}).encode().removesuffix(b"}")
    messages = b",\n".join(line for run in runs for line in _lines(run))
    body = b"".join((head, b', "messages": [', b"\n" if messages else b"", messages, b"]}\n"))
    return Response(body, headers={ACK: acks}, media_type="application/json")


def _lines(run: Delivered) -> Iterable[bytes]:
    """Yields each message as a JSON object, which says how often it was delivered."""
    deliveries = f',"deliveries":{run.deliveries}}}'.encode()
    for text in message_texts(run).to_pylist():
        yield text.encode().removesuffix(b"}") + deliveries


def _format_ranges(runs: Sequence[Delivered]) -> str:
    """Formats ranges as `_parse_range` reads them, and joins neighbours."""
    found: list[list[int]] = []
    for run in sorted(runs, key=lambda run: (run.partition, run.first)):
        if found and found[-1][0] == run.partition and found[-1][2] == run.first:
            found[-1][2] = run.end
        else:
            found.append([run.partition, run.first, run.end])
    return ",".join(
        f"{partition}:{first}" + (f"-{end - 1}" if end - first > 1 else "") for partition, first, end in found
    )


def _parse_range(text: str) -> tuple[int, int, int]:
    match = _RANGE.fullmatch(text)
    if match is None or int(match[3] or match[2]) < int(match[2]):
        raise RequestError(
            f"offsets are partition:offset or partition:first-last, like 0:15-20,1:7, not {text[:40]!r}."
        )
    return int(match[1]), int(match[2]), int(match[3] or match[2]) + 1


def _count(ranges: Iterable[tuple[int, int, int]]) -> int:
    return sum(end - start for _, start, end in ranges)


def _kind(text: str) -> Kind:
    try:
        return Kind(text.lower().replace("-", "_"))
    except ValueError:
        raise RequestError(f"type is {', '.join(Kind)}, not {text[:40]!r}.") from None
