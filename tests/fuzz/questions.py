"""What can be asked at the port of operations: topics, subscriptions, hot lookups and SQL, with odd values in it."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from typing import NamedTuple
from urllib.parse import quote

import httpx

from frazil.ops.answers import ARROW_STREAM
from tests.doors.topics.support import NDJSON
from tests.fuzz.answering import Answered
from tests.fuzz.calls import Call
from tests.fuzz.mutating import Chance, damaged

ODD = "odd"
"""A topic of those who send anything."""
_TOPICS = (ODD, ODD, ODD, ODD, "odd-part-0", "odd-part-3", "odd-part-10000", "nobody", "frazil.odd", "/frazil/odd")
_NAMES = ("all", "all", "other", "", ".", "..", "\0", "é", "a b", "x" * 300, "%", "_offset", "-part-1", "a/b", "\n")
_WORDS = (
    "",
    "0",
    "1",
    "-1",
    "true",
    "yes",
    "earliest",
    "latest",
    "NaN",
    "1e9",
    "9" * 30,
    "\0",
    "é",
    "0:0",
    "x" * 5000,
)
_RANGES = ("0:0", "0:0-5", "0:5-0", "0:0,0:0", "9:1", "0:" + "9" * 18, "0:0-" + "9" * 18, ",", ":", "0:-1", "0:" * 99)
_TIMES = (
    "0",
    "9" * 19,
    "2026-11-16T12:00:00Z",
    "0001-01-01T00:00:00+23:59",
    "9999-12-31T23:59:59-23:59",
    "2026-13-01",
)
_QUERIES = (
    "SELECT 1",
    "SELECT count(*) FROM odd",
    "SELECT * FROM odd LIMIT 3",
    "SELECT a.payload FROM odd a JOIN odd b ON a._offset = b._offset WHERE a.payload LIKE 'x%' ORDER BY 1 LIMIT 5",
    "WITH a AS (SELECT 1 AS b) SELECT sum(b) FROM a GROUP BY b HAVING sum(b) > 0",
    "SELECT map(['a'], [1])['a'], {'a': 1}.a, [1, 2][1], TIMESTAMP '2026-01-01', INTERVAL 1 DAY, 'x'::BLOB",
)
_HOSTILE = (
    *("", ";", "SELECT 1; SELECT 2", "SELECT " + "(" * 3000 + "1" + ")" * 3000, "SELECT " + "-" * 5000 + "1", "\0"),
    *(
        "SELECT '" + "x" * 20_000 + "'",
        "SELECT 1 " + "UNION ALL SELECT 1 " * 500,
        "SELECT [" * 2000,
        "SELECT $1",
        "?",
    ),
    *("ATTACH '/x' AS y", "COPY odd TO '/x/y'", "SELECT * FROM read_csv('/etc/passwd')", "PRAGMA version", "SET x=1"),
    *("INSTALL httpfs", "SELECT * FROM '/etc/passwd'", "SELECT getenv('HOME')", "SELECT * FROM duckdb_settings()"),
    *("CREATE TABLE a AS SELECT 1", "DROP TABLE odd", "SELECT * FROM nobody", "SELECT nobody FROM odd", "SELECT 1/0"),
    *("SELECT 1e400", "SELECT " + "9" * 500, "SELECT DATE '0000-00-00'", "SELECT 'a'::INT", "SELECT chr(55296)"),
)


class Question(NamedTuple):
    method: str
    path: Sequence[str]
    """Parts in braces stand for one of the values that are named there."""
    parameters: Mapping[str, Sequence[str]] = {}


_NUMBERS = (*_WORDS, "3", "64", str(2**31), str(2**63 - 1), str(2**63))
_START = {"offset": (*_WORDS, *_RANGES), "time": _TIMES}
_HOT = {"cold": _WORDS, "raw": _WORDS}
_ONE = ("topics", "{topic}", "subscriptions", "{name}")
_QUESTIONS = (
    Question("GET", ("topics",)),
    Question("GET", ("topics", "{topic}"), {**_START, "partition": _NUMBERS, "limit": _NUMBERS}),
    Question("HEAD", ("topics", "{topic}", "stream"), {**_START, "partition": _NUMBERS}),
    Question("GET", ("topics", "{topic}", "stats")),
    Question("PUT", ("topics", "{topic}"), {"partitions": ("1", "3", "0", "-1", "10001", *_WORDS)}),
    Question("DELETE", ("topics", "{name}"), {"drop_table": _WORDS}),
    Question(
        "POST",
        ("topics", "{topic}"),
        {
            **dict.fromkeys(("partition", "sequence", "schema_id", "schema_version"), _NUMBERS),
            **dict.fromkeys(("key", "producer", "producer_name"), _NAMES),
            "publish_time": _TIMES,
        },
    ),
    Question("GET", ("topics", "{topic}", "subscriptions")),
    Question("GET", _ONE),
    Question(
        "PUT", _ONE, {**_START, "type": ("shared", "key-shared", "exclusive", *_WORDS), "per_partition": _WORDS}
    ),
    Question("DELETE", _ONE),
    Question(
        "POST", (*_ONE, "receive"), {"consumer": _NAMES, "limit": _NUMBERS, "wait": ("0", "1", "61", "-1", "x")}
    ),
    Question("POST", (*_ONE, "ack"), {"offsets": _RANGES}),
    Question("POST", (*_ONE, "nack"), {"offsets": _RANGES, "delay": _NUMBERS, "reason": _NAMES}),
    Question("POST", (*_ONE, "leave"), {"consumer": _NAMES}),
    Question("POST", (*_ONE, "seek"), _START),
    Question("GET", ("hot",)),
    Question("GET", ("hot", "{topic}"), {"limit": _NUMBERS, "raw": _WORDS}),
    Question("GET", ("hot", "{topic}", "key", "{name}"), {**_HOT, "encoding": ("hex", "base64", *_WORDS)}),
    Question("GET", ("hot", "{topic}", "{number}"), {**_HOT, "from": _NUMBERS, "to": _NUMBERS, "limit": _NUMBERS}),
    Question("GET", ("hot", "{topic}", "{number}", "{number}"), _HOT),
)
_VALUES = {"{topic}": (*_TOPICS, "logs", "\0", "é", ""), "{name}": _NAMES, "{number}": _NUMBERS}
_TENANTS = ("bad", "bad", "", "a/b", "..", "x" * 300, "a|b")
_BODIES = (b"", b"0:0-3", b"{}", b"\xff\xfe", b"x" * 3000, json.dumps({"payload": "x"}).encode())
_KINDS = ("", NDJSON, ARROW_STREAM, "text/plain", "a" * 90)


def questions(client: httpx.AsyncClient, url: str) -> Iterator[Call]:
    for each in _QUESTIONS:
        yield _asked(client, url, each)
    yield _sql(client, url)


def _asked(client: httpx.AsyncClient, url: str, question: Question) -> Call:
    async def make(chance: Chance) -> Answered:
        parts = (chance.choice(_VALUES[part]) if part in _VALUES else part for part in question.path)
        path = "/".join(quote(part, safe="") for part in parts)
        given = [
            f"{name}={quote(chance.choice(values))}"
            for name, values in {**question.parameters, "nonsense": _WORDS}.items()
            if chance.random() < (0.4 if name != "nonsense" else 0.05)
        ]
        body = chance.choice(_BODIES) if question.method == "POST" else b""
        where = f"{url}/{path}" + (f"?{'&'.join(given)}" if given else "")
        return await _sent(client, question.method, where, body, _headers(chance))

    return Call(f"{question.method} {'/'.join(question.path)}", make)


def _sql(client: httpx.AsyncClient, url: str) -> Call:
    async def make(chance: Chance) -> Answered:
        text, other = (chance.choice(_QUERIES).encode() for _ in range(2))
        body = damaged(chance, text, other) if chance.random() < 0.7 else chance.choice(_HOSTILE).encode()
        return await _sent(client, "POST", f"{url}/sql", body, _headers(chance))

    return Call("POST sql", make)


def _headers(chance: Chance) -> dict[str, str]:
    return {
        "x-scope-orgid": chance.choice(_TENANTS),
        "content-type": chance.choice(_KINDS),
        "accept": chance.choice(("*/*", ARROW_STREAM)),
    }


async def _sent(
    client: httpx.AsyncClient, method: str, url: str, body: bytes, headers: Mapping[str, str]
) -> Answered:
    answer = await client.request(method, url, content=body, headers=headers)
    shown = answer.text if answer.headers.get("content-type", "").startswith(("application/json", "text/")) else ""
    return Answered(answer.status_code, shown)
