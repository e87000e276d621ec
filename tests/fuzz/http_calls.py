"""Calls every endpoint of the operations port with odd values: topics, subscriptions, hot lookups and SQL."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from typing import NamedTuple
from urllib.parse import quote

import httpx

from frazil.web.answers import ARROW_STREAM
from tests.doors.http.support import NDJSON
from tests.fuzz.answers import Answer
from tests.fuzz.call import Call
from tests.fuzz.mutation import Chance, damaged

ODD = "odd"
"""Callers may send anything to this topic."""


class Choice(NamedTuple):
    """The usual values of a parameter, and odd ones."""

    usual: Sequence[str]
    odd: Sequence[str]

    def __call__(self, chance: Chance) -> str:
        return chance.choice(self.usual if chance.random() < 0.7 else self.odd)


_WORDS = ("", "0", "-1", "yes", "NaN", "1e9", "9" * 30, "\0", "é", "x" * 5000, "null", " 1", "1 ", "+1", "0x1", "١")
_TOPIC = Choice(
    (ODD,), ("odd-part-0", "odd-part-3", "odd-part-10000", "nobody", "frazil.odd", "/frazil/odd", "logs", "")
)
_NAME = Choice(("all", "other"), ("", ".", "..", "\0", "é", "a b", "x" * 300, "%", "_offset", "-part-1", "a/b", "\n"))
_FLAG = Choice(("true", "false"), _WORDS)
_NUMBER = Choice(("0", "1", "3"), (*_WORDS, "64", str(2**31), str(2**32), str(2**63 - 1), str(2**63)))
_PARTITIONS = Choice(("1", "3"), (*_WORDS, "10001"))
_OFFSET = Choice(
    ("earliest", "latest", "0", "1", "0:0"), (*_WORDS, "9:1", "0:5,0:6", "0:" + "9" * 18, "0:-1", str(2**63 - 1))
)
_RANGE = Choice(
    ("0:0", "0:0-5", "0:1,0:3"), ("0:5-0", "9:1", "0:" + "9" * 18, "0:0-" + "9" * 18, ",", ":", "0:-1", "0:" * 99, "")
)
_TIME = Choice(
    ("0", "1700000000000", "2026-11-16T12:00:00Z"),
    ("9" * 19, "0001-01-01T00:00:00+23:59", "9999-12-31T23:59:59-23:59", "2026-13-01", *_WORDS),
)
_KIND = Choice(("shared", "key-shared", "exclusive", "failover"), _WORDS)
_ENCODING = Choice(("hex", "base64"), _WORDS)
_WAIT = Choice(("0", "1"), ("61", *_WORDS))
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


class HttpQuestion(NamedTuple):
    method: str
    path: Sequence[str | Choice]
    parameters: Mapping[str, Choice] = {}


_START = {"offset": _OFFSET, "time": _TIME}
_HOT = {"cold": _FLAG, "raw": _FLAG}
_ONE = ("topics", _TOPIC, "subscriptions", _NAME)
_PRODUCED = {
    **dict.fromkeys(("partition", "sequence", "schema_id", "schema_version"), _NUMBER),
    **dict.fromkeys(("key", "producer", "producer_name"), _NAME),
    "publish_time": _TIME,
}
_QUESTIONS = {
    "list topics": HttpQuestion("GET", ("topics",)),
    "read": HttpQuestion("GET", ("topics", _TOPIC), {**_START, "partition": _NUMBER, "limit": _NUMBER}),
    "stream": HttpQuestion("HEAD", ("topics", _TOPIC, "stream"), {**_START, "partition": _NUMBER}),
    "stats": HttpQuestion("GET", ("topics", _TOPIC, "stats")),
    "create": HttpQuestion("PUT", ("topics", _TOPIC), {"partitions": _PARTITIONS}),
    "delete": HttpQuestion("DELETE", ("topics", _NAME), {"drop_table": _FLAG}),
    "produce": HttpQuestion("POST", ("topics", _TOPIC), _PRODUCED),
    "subscriptions": HttpQuestion("GET", ("topics", _TOPIC, "subscriptions")),
    "subscription": HttpQuestion("GET", _ONE),
    "subscribe": HttpQuestion("PUT", _ONE, {**_START, "type": _KIND, "per_partition": _FLAG}),
    "unsubscribe": HttpQuestion("DELETE", _ONE),
    "receive": HttpQuestion("POST", (*_ONE, "receive"), {"consumer": _NAME, "limit": _NUMBER, "wait": _WAIT}),
    "ack": HttpQuestion("POST", (*_ONE, "ack"), {"offsets": _RANGE}),
    "nack": HttpQuestion("POST", (*_ONE, "nack"), {"offsets": _RANGE, "delay": _NUMBER, "reason": _NAME}),
    "leave": HttpQuestion("POST", (*_ONE, "leave"), {"consumer": _NAME}),
    "seek": HttpQuestion("POST", (*_ONE, "seek"), _START),
    "list hot": HttpQuestion("GET", ("hot",)),
    "newest": HttpQuestion("GET", ("hot", _TOPIC), {"limit": _NUMBER, "raw": _FLAG}),
    "by key": HttpQuestion("GET", ("hot", _TOPIC, "key", _NAME), {**_HOT, "encoding": _ENCODING}),
    "between": HttpQuestion(
        "GET", ("hot", _TOPIC, _NUMBER), {**_HOT, "from": _NUMBER, "to": _NUMBER, "limit": _NUMBER}
    ),
    "by offset": HttpQuestion("GET", ("hot", _TOPIC, _NUMBER, _NUMBER), _HOT),
}
_NEEDED = ("offsets", "wait")
"""Without these a question is another one, or waits for long."""
_TENANTS = ("bad", "bad", "bad", "bad", "bad", "bad", "", "a/b", "..", "x" * 300, "a|b")
_BODIES = (b"", b"0:0-3", b"{}", b"\xff\xfe", b"x" * 3000, json.dumps({"payload": "x"}).encode())
_KINDS = ("", NDJSON, ARROW_STREAM, "text/plain", "a" * 90)


def http_calls(client: httpx.AsyncClient, url: str) -> Iterator[Call]:
    for name, each in _QUESTIONS.items():
        yield _asked(client, url, name, each)
    yield _sql(client, url)


def _asked(client: httpx.AsyncClient, url: str, name: str, question: HttpQuestion) -> Call:
    async def make(chance: Chance) -> Answer:
        parts = [part if isinstance(part, str) else part(chance) for part in question.path]
        path = "/".join(quote(part, safe="") for part in parts)
        given = [
            f"{each}={quote(values(chance))}"
            for each, values in question.parameters.items()
            if each in _NEEDED or chance.random() < 0.3
        ]
        if chance.random() < 0.05:
            given.append("nonsense=1")
        body = chance.choice(_BODIES) if question.method == "POST" else b""
        where = f"{url}/{path}" + (f"?{'&'.join(given)}" if given else "")
        return await _sent(client, question.method, where, body, _headers(chance))

    return Call(f"asked {name}", make)


def _sql(client: httpx.AsyncClient, url: str) -> Call:
    async def make(chance: Chance) -> Answer:
        text, other = (chance.choice(_QUERIES).encode() for _ in range(2))
        body = damaged(chance, text, other) if chance.random() < 0.7 else chance.choice(_HOSTILE).encode()
        return await _sent(client, "POST", f"{url}/sql", body, _headers(chance))

    return Call("sql", make)


def _headers(chance: Chance) -> dict[str, str]:
    return {
        "x-scope-orgid": chance.choice(_TENANTS),
        "content-type": chance.choice(_KINDS),
        "accept": chance.choice(("*/*", ARROW_STREAM)),
    }


async def _sent(client: httpx.AsyncClient, method: str, url: str, body: bytes, headers: Mapping[str, str]) -> Answer:
    answer = await client.request(method, url, content=body, headers=headers)
    shown = answer.text if answer.headers.get("content-type", "").startswith(("application/json", "text/")) else ""
    return Answer(answer.status_code, shown)
