"""Wraps answers as all endpoints of Prometheus's API do."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import wraps
from typing import Any

import orjson

from frazil.engine.interface import QueryContext, QueryRequest, Reply
from frazil.errors import QueryError, QueryTimeout, QueryTooLarge, RequestCancelled, RequestError
from frazil.query.promql.problems import DurationError, ExecutionError

_JSON = {"content-type": "application/json"}
_MOST_NOTES = 10
_PIECE_BYTES = 128 * 1024
INCOMPLETE = "the newest samples may be missing: they are in a log on another machine"
TRUNCATED = "results truncated due to limit"


class BadParameter(RequestError):
    """Raised when a parameter of a request cannot be understood. The message has its name, as Prometheus words it."""

    def __init__(self, name: str, reason: object) -> None:
        super().__init__(f'invalid parameter "{name}": {reason}')


def data(value: Any, warnings: Sequence[str] = (), infos: Sequence[str] = ()) -> Reply:
    """Returns a successful answer."""
    return streamed([orjson.dumps(value)], warnings, infos)


def streamed(pieces: Iterable[bytes], warnings: Sequence[str] = (), infos: Sequence[str] = ()) -> Reply:
    """Returns a successful answer whose data is JSON in pieces."""
    return Reply(200, _JSON, gathered(_wrapped(pieces, warnings, infos)))


def gathered(pieces: Iterable[bytes]) -> Iterator[bytes]:
    """Joins small pieces, because each one is a message between processes. A small answer is one piece."""
    waiting: list[bytes] = []
    size = 0
    for piece in pieces:
        waiting.append(piece)
        size += len(piece)
        if size >= _PIECE_BYTES:
            yield b"".join(waiting)
            waiting, size = [], 0
    if waiting:
        yield b"".join(waiting)


def nothing() -> Reply:
    """Returns a successful answer without data."""
    return Reply(204, {}, [])


def failed(status: int, kind: str, reason: str) -> Reply:
    text = reason.encode("utf-8", "backslashreplace").decode()
    return Reply(status, _JSON, [orjson.dumps({"status": "error", "errorType": kind, "error": text})])


def _wrapped(pieces: Iterable[bytes], warnings: Sequence[str], infos: Sequence[str]) -> Iterator[bytes]:
    yield b'{"status":"success","data":'
    yield from pieces
    for name, texts, kind in ((b"warnings", warnings, "warning"), (b"infos", infos, "info")):
        if texts:
            yield b',"' + name + b'":' + orjson.dumps(_few(texts, kind))
    yield b"}"


def _few(texts: Sequence[str], kind: str) -> list[str]:
    shown = [text.encode("utf-8", "backslashreplace").decode() for text in texts[:_MOST_NOTES]]
    left = len(texts) - len(shown)
    return [*shown, f"{left} more {kind} annotations omitted"] if left else shown


Answer = Callable[[QueryRequest, QueryContext], Reply]


def with_errors(answer: Answer) -> Answer:
    """Answers errors as Prometheus does. Others than those of the query are left to the port."""

    @wraps(answer)
    def answered(request: QueryRequest, context: QueryContext) -> Reply:
        try:
            return answer(request, context)
        except (ExecutionError, DurationError) as error:
            return failed(422, "execution", str(error))
        except RequestCancelled:
            raise
        except QueryTimeout:
            return failed(503, "timeout", "query timed out in expression evaluation")
        except QueryTooLarge as error:
            return failed(422, "execution", str(error))
        except (QueryError, RequestError) as error:
            return failed(400, "bad_data", str(error))

    return answered
