"""Makes replies as Tempo's clients expect them: JSON or protobuf, and errors as plain text."""

from __future__ import annotations

import functools
import math
from collections.abc import Callable
from typing import Any

import orjson
from google.protobuf import json_format
from google.protobuf.message import Message

from frazil.engine.interface import Answer, QueryContext, QueryRequest, Reply
from frazil.query.traceql.errors import TraceQLError

PROTOBUF = "application/protobuf"
JSON = "application/json"
_EXACT = 2.0**53


class RequestRefused(Exception):
    """Raised when a request cannot be answered as it stands; its text goes to the client."""

    def __init__(self, message: str, status: int = 400) -> None:
        super().__init__(message)
        self.status = status


def text_reply(text: str, status: int = 200) -> Reply:
    return Reply(status, {"content-type": "text/plain; charset=utf-8"}, [text.encode()] if text else [])


def json_reply(value: dict[str, Any]) -> Reply:
    return Reply(200, {"content-type": JSON}, [orjson.dumps(value)])


def reply_as_accepted(request: QueryRequest, value: dict[str, Any], message: type[Message]) -> Reply:
    """Replies with JSON, or with the message that it stands for."""
    if not wants_protobuf(request):
        return json_reply(value)
    return protobuf_reply(json_format.ParseDict(value, message()))


def protobuf_reply(message: Message) -> Reply:
    return Reply(200, {"content-type": PROTOBUF}, [message.SerializeToString()])


def wants_protobuf(request: QueryRequest) -> bool:
    return PROTOBUF in request.headers.get("accept", "")


def refusing(prefix: str = "") -> Callable[[Answer], Answer]:
    """Turns errors of the request and of its query into replies. The prefix stands before those of the query."""

    def decorate(answer: Answer) -> Answer:
        @functools.wraps(answer)
        def wrapped(request: QueryRequest, context: QueryContext) -> Reply:
            try:
                return answer(request, context)
            except RequestRefused as error:
                return text_reply(str(error), error.status)
            except TraceQLError as error:
                return text_reply(prefix + str(error), 400)

        return wrapped

    return decorate


def number(value: float) -> int | float | str:
    """Returns a number as JSON of protobuf has it: whole ones without a point."""
    if math.isnan(value):
        return "NaN"
    if math.isinf(value):
        return "Infinity" if value > 0 else "-Infinity"
    return int(value) if value == int(value) and abs(value) < _EXACT else value
