"""Answers the calls of `tempopb.StreamingQuerier`, each as the endpoint over HTTP that asks the same.

The body of a request is the call's message, and its path ends in the name of the method. The answer is a stream of
messages in gRPC's frames: a zero, the length in four bytes, the message.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import Any, NamedTuple
from urllib.parse import urlencode

from google.protobuf import json_format
from google.protobuf.message import DecodeError, Message

from frazil.engine.interface import QueryContext, QueryRequest, Reply
from frazil.query.traceql.api import metrics, search, tag_values, tags
from frazil.query.traceql.api.messages import message_class
from frazil.query.traceql.api.replies import RequestRefused, refusing
from frazil.query.traceql.api.values_json import Json

SERVICE = "tempopb.StreamingQuerier"
ANSWER = "frazil.query.traceql.api.streaming:answer"
"""Names the function that answers all methods."""
MOST_BYTES = 2 * 1024 * 1024
"""A message is no longer than this, if that can be: clients refuse messages of more than 4 MiB."""

_FRAME = b"\0"


class Method(NamedTuple):
    asked: str
    answered: str
    lists: str
    """The field of the answer that is split if it is too long."""
    parameters: Callable[[Any], dict[str, object]]
    answer: Callable[[QueryRequest, QueryContext], Json]
    prefix: str = ""


def _of_search(message: Any) -> dict[str, object]:
    tags = " ".join(f'{key}="{_escaped(value)}"' for key, value in sorted(message.Tags.items()))
    return {
        "q": message.Query,
        "tags": tags,
        "minDuration": f"{message.MinDurationMs}ms" if message.MinDurationMs else "",
        "maxDuration": f"{message.MaxDurationMs}ms" if message.MaxDurationMs else "",
        "limit": message.Limit or "",
        "spss": message.SpansPerSpanSet or "",
        **_of_seconds(message),
    }


def _escaped(text: str) -> str:
    return text.replace("\\", "\\\\").replace('"', '\\"')


def _of_tags(message: Any) -> dict[str, object]:
    return {"scope": message.scope, "q": message.query, "limit": message.maxTagsPerScope, **_of_seconds(message)}


def _of_values(message: Any) -> dict[str, object]:
    return {"q": message.query, "limit": message.maxTagValues, **_of_seconds(message)}


def _of_seconds(message: Any) -> dict[str, object]:
    return {"start": message.start, "end": message.end} if message.start or message.end else {}


def _of_instant(message: Any) -> dict[str, object]:
    # Numbers of so many digits are nanoseconds.
    times = {"start": f"{message.start:011d}", "end": f"{message.end:011d}"} if message.end else {}
    return {"q": message.query, **times}


def _of_range(message: Any) -> dict[str, object]:
    step = {"step": f"{message.step}ns"} if message.step else {}
    return _of_instant(message) | step | {"exemplars": message.exemplars, "maxSeries": message.maxSeries}


METHODS = {
    "Search": Method("SearchRequest", "SearchResponse", "traces", _of_search, search.search_answer, search.PREFIX),
    "SearchTags": Method("SearchTagsRequest", "SearchTagsResponse", "tagNames", _of_tags, tags.names_answer),
    "SearchTagsV2": Method("SearchTagsRequest", "SearchTagsV2Response", "scopes", _of_tags, tags.scopes_answer),
    "SearchTagValues": Method(
        "SearchTagValuesRequest", "SearchTagValuesResponse", "tagValues", _of_values, tag_values.values_answer
    ),
    "SearchTagValuesV2": Method(
        "SearchTagValuesRequest", "SearchTagValuesV2Response", "tagValues", _of_values, tag_values.typed_values_answer
    ),
    "MetricsQueryRange": Method("QueryRangeRequest", "QueryRangeResponse", "series", _of_range, metrics.range_answer),
    "MetricsQueryInstant": Method(
        "QueryInstantRequest", "QueryInstantResponse", "series", _of_instant, metrics.instant_answer
    ),
}


def answer(request: QueryRequest, context: QueryContext) -> Reply:
    """Answers one call. Status and text of a reply that is no success are those that the endpoint would have."""
    method = METHODS[request.path.rpartition("/")[2]]
    return refusing(method.prefix)(lambda request, context: _stream(method, request, context))(request, context)


def _stream(method: Method, request: QueryRequest, context: QueryContext) -> Reply:
    message: Any = message_class(method.asked)()
    try:
        message.ParseFromString(request.body)
    except DecodeError as error:
        raise RequestRefused(f"The message is no {method.asked}: {error}") from None
    parameters = {name: value for name, value in method.parameters(message).items() if value not in ("", 0)}
    tag = {"tag": message.tagName} if method.asked == "SearchTagValuesRequest" else {}
    asked = replace(request, query=urlencode(parameters), path_parameters=tag)
    found = json_format.ParseDict(method.answer(asked, context), message_class(method.answered)())
    frames = (_frame(part) for part in _parts(found, method.lists))
    return Reply(200, {"content-type": "application/grpc+proto"}, frames)


def _frame(message: Message) -> bytes:
    data: bytes = message.SerializeToString()
    return _FRAME + len(data).to_bytes(4, "big") + data


def _parts(message: Any, name: str) -> Iterator[Message]:
    """Splits an answer that is too long. All that is no part of its list is in each part."""
    own = getattr(message, name)
    if message.ByteSize() <= MOST_BYTES or len(own) < 2:
        yield message
        return
    half = len(own) // 2
    for part in (slice(0, half), slice(half, None)):
        copy: Any = type(message)()
        copy.CopyFrom(message)
        copy.ClearField(name)
        getattr(copy, name).extend(own[part])
        yield from _parts(copy, name)
