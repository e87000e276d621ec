"""What everything that topics answer over HTTP has in common."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import Any

from starlette.requests import ClientDisconnect, Request
from starlette.responses import Response

from frazil.doors.bodies import CLOSED
from frazil.doors.topics.refusals import refusal
from frazil.doors.topics.subscribers import subscriptions_of
from frazil.errors import FrazilError
from frazil.log.log import Log
from frazil.ops.http import Endpoint
from frazil.topics.storage import TopicStorage
from frazil.topics.subscribing import Subscriptions

Handler = Callable[[Request], Awaitable[Response]]


@dataclass(frozen=True)
class Topics:
    """What a running process has of topics."""

    storage: TopicStorage
    subscriptions: Subscriptions
    log: Log

    async def told_subscriptions(self, topic: str) -> list[dict[str, Any]]:
        here = await self.subscriptions.stats(topic)
        return await subscriptions_of(self.storage, self.log.store, topic, here)


def endpoint(method: str, path: str, work: Handler, summary: str) -> Endpoint:
    async def answer(request: Request) -> Response:
        try:
            return await work(request)
        except ClientDisconnect:
            return Response(status_code=CLOSED)
        except FrazilError as error:
            return refusal(error)

    return Endpoint(path, answer, summary, (method,))
