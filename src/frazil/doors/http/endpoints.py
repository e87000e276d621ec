"""Wraps the handlers of the topics' HTTP API, so that errors become answers."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any

from starlette.requests import ClientDisconnect, Request
from starlette.responses import Response

from frazil.doors.http.subscription_listing import subscriptions_of
from frazil.errors import FrazilError
from frazil.topics.topic_service import Topics
from frazil.web.answers import refused
from frazil.web.ports.contributions import Endpoint

CLOSED = 499
"""This is the status of answers that nobody reads, because the client has gone."""

Handler = Callable[[Request], Awaitable[Response]]


async def describe_subscriptions(topics: Topics, topic: str) -> list[dict[str, Any]]:
    """Describes the subscriptions of a topic, with their lag."""
    here = await topics.subscriptions.stats(topic)
    return await subscriptions_of(topics, topics.log.store, topic, here)


def endpoint(method: str, path: str, work: Handler, summary: str) -> Endpoint:
    async def answer(request: Request) -> Response:
        try:
            return await work(request)
        except ClientDisconnect:
            return Response(status_code=CLOSED)
        except FrazilError as error:
            return refused(error)

    return Endpoint(path, answer, summary, (method,))
