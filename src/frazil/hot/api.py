"""Serves the hot buffer over HTTP: records that were just appended, by key or offset, as JSON or an Arrow stream."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any

from starlette.requests import Request
from starlette.responses import JSONResponse, Response

from frazil.config.model import Config
from frazil.errors import FrazilError, NotBuffered, TopicNotFound
from frazil.hot.queries import LIMIT, HotBuffer
from frazil.hot.query_threads import QueryThreads
from frazil.hot.row_collector import HotRows
from frazil.scan.tenants import HEADER, tenant_of
from frazil.web.answers import problem, refused, row_answer, rows_answer
from frazil.web.parameters import check_parameters, flag, key_of, limit_of, number, optional_number
from frazil.web.ports.contributions import Endpoint

Handler = Callable[[Request], Awaitable[Response]]
Work = Callable[[Request, HotBuffer], Response]

UNDECODABLE = "x-frazil-undecodable"
"""This header lists the records, as partition/offset, that are left out because they cannot become rows."""
NEXT_OFFSET = "x-frazil-next-offset"
"""This header has the offset to continue with when the answer does not have everything that was asked for."""
_NAMED = 100


def hot_endpoints(config: Config, hot: Callable[[], HotBuffer], threads: QueryThreads) -> list[Endpoint]:
    """`hot` returns the buffer, or raises while there is none."""

    def by_key(request: Request, buffer: HotBuffer) -> Response:
        check_parameters(request, "encoding", "cold", "raw")
        topic = request.path_params["topic"]
        tenant = tenant_of(config, topic, request.headers.getlist(HEADER))
        cold = flag(request, "cold")
        row = buffer.query_by_key(topic, key_of(request), cold=cold, raw=flag(request, "raw"), tenant=tenant)
        if row is None:
            return _not_found(buffer, topic, f"Topic {topic!r} has no record with this key", cold)
        return row_answer(request, row)

    def by_offset(request: Request, buffer: HotBuffer) -> Response:
        check_parameters(request, "cold", "raw")
        topic = request.path_params["topic"]
        partition, offset = _partition(request), number(request.path_params["offset"], "offset")
        tenant = tenant_of(config, topic, request.headers.getlist(HEADER))
        cold = flag(request, "cold")
        row = buffer.query_by_offset(topic, partition, offset, cold=cold, raw=flag(request, "raw"), tenant=tenant)
        if row is None:
            what = f"Topic {topic!r} has no record of offset {offset} in partition {partition}"
            return _not_found(buffer, topic, what, cold)
        return row_answer(request, row)

    def between(request: Request, buffer: HotBuffer) -> Response:
        check_parameters(request, "from", "to", "limit", "cold", "raw")
        topic = request.path_params["topic"]
        found = buffer.query_range(
            topic,
            _partition(request),
            optional_number(request, "from"),
            optional_number(request, "to"),
            limit_of(request, LIMIT),
            cold=flag(request, "cold"),
            raw=flag(request, "raw"),
            tenant=tenant_of(config, topic, request.headers.getlist(HEADER)),
        )
        return _rows(request, found)

    def newest(request: Request, buffer: HotBuffer) -> Response:
        check_parameters(request, "limit", "raw")
        topic = request.path_params["topic"]
        tenant = tenant_of(config, topic, request.headers.getlist(HEADER))
        return _rows(
            request, buffer.query_all(topic, limit_of(request, LIMIT), raw=flag(request, "raw"), tenant=tenant)
        )

    def listing(request: Request, buffer: HotBuffer) -> Response:
        return JSONResponse(_listing(buffer))

    def endpoint(path: str, work: Work, description: str) -> Endpoint:
        return Endpoint(path, _answering(work, hot, threads), description)

    return [
        endpoint("/hot", listing, "topics in memory, with their partitions and offsets"),
        endpoint("/hot/{topic}", newest, "newest rows of a topic (?limit=)"),
        endpoint("/hot/{topic}/key/{key:path}", by_key, "newest row with a key (?encoding=&cold=)"),
        endpoint("/hot/{topic}/{partition}", between, "rows of a partition (?from=&to=&limit=&cold=)"),
        endpoint("/hot/{topic}/{partition}/{offset}", by_offset, "row of an offset (?cold=)"),
    ]


def _answering(work: Work, hot: Callable[[], HotBuffer], threads: QueryThreads) -> Handler:
    """Does the work in a thread, because it may wait for disk, store or registry."""

    async def answer(request: Request) -> Response:
        try:
            within = threads.cold if flag(request, "cold") else threads.hot
            return await within(lambda: work(request, hot()))
        except FrazilError as error:
            return _refusal(error)

    return answer


def _refusal(error: FrazilError) -> Response:
    """`cold` in the answer says whether the same question with `cold=true` may find something."""
    if isinstance(error, NotBuffered):
        return refused(error, first_offset=error.first, cold=True)
    return refused(error, cold=False) if isinstance(error, TopicNotFound) else refused(error)


def _partition(request: Request) -> int:
    return number(request.path_params["partition"], "partition", most=2**31 - 1)


def _not_found(buffer: HotBuffer, topic: str, what: str, cold: bool) -> Response:
    """`cold` in the answer says whether the same question with `cold=true` may find something."""
    if cold:
        return problem(404, f"{what}.", cold=False)
    older = buffer.has_older(topic)
    hint = " in memory; older ones are asked with cold=true" if older else ""
    return problem(404, f"{what}{hint}.", cold=older)


def _rows(request: Request, found: HotRows) -> Response:
    headers: dict[str, str] = {}
    if found.next_offset is not None:
        headers[NEXT_OFFSET] = str(found.next_offset)
    if found.undecodable:
        named = [f"{each.partition}/{each.offset}" for each in found.undecodable[:_NAMED]]
        more = len(found.undecodable) - len(named)
        headers[UNDECODABLE] = ", ".join([*named, f"and {more} more"] if more else named)
    return rows_answer(request, found.rows, headers)


def _listing(hot: HotBuffer) -> dict[str, Any]:
    buffer = hot.buffer
    topics = []
    for topic, partitions in sorted(buffer.topics.items()):
        contents = {partition: buffered.visible() for partition, buffered in sorted(partitions.items())}
        topics.append(
            {
                "topic": topic,
                "records": sum(each.rows for each in contents.values()),
                "bytes": sum(each.nbytes for each in contents.values()),
                "index_bytes": sum(each.index_bytes for each in contents.values()),
                "partitions": [
                    {
                        "partition": partition,
                        "records": each.rows,
                        "unsealed_records": each.end - max(each.sealed, each.start),
                        "first_offset": each.first_source_offset,
                        "last_offset": each.last_source_offset,
                        "written_here": partitions[partition].source is not None,
                    }
                    for partition, each in contents.items()
                ],
            }
        )
    return {
        "topics": topics,
        "bytes": buffer.nbytes,
        "max_bytes": buffer.max_bytes,
        "unsealed_bytes": buffer.unsealed_bytes,
    }
