"""Loki's push in JSON is translated to Protobuf, or refused with the reason."""

from __future__ import annotations

import asyncio
import gzip
import json
import tracemalloc
import zlib
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import zstandard
from hypothesis import given
from hypothesis import strategies as st

from frazil.doors.loki.json_body import to_protobuf
from frazil.errors import RequestError
from tests.doors.loki.support import push_json, snappy
from tests.doors.telemetry.support import TIME, Served, rows, run, settings
from tests.formats.loki.support import NOW, lines, plain, rows_of, texts

names = texts.filter(bool)
entries = st.tuples(st.integers(1, 2**63 - 1), lines, st.none() | st.dictionaries(names, lines, max_size=3))
streams = st.tuples(st.dictionaries(names, lines, max_size=3), st.lists(entries, max_size=3))


def body_of(*given: Any) -> bytes:
    streams = []
    for labels, of_stream in given:
        values = [[str(time), line, *([] if pairs is None else [pairs])] for time, line, pairs in of_stream]
        streams.append({"stream": labels, "values": values})
    return json.dumps({"streams": streams}).encode()


def line(text: str) -> bytes:
    return body_of(({"app": "shop"}, [(TIME, text, None)]))


@given(given=st.lists(streams, max_size=3))
def test_all_of_it_comes_back(given: list[Any]) -> None:
    found = plain(rows_of(to_protobuf(body_of(*given))))
    expected = [(labels, *entry) for labels, of_stream in given for entry in of_stream]
    for row, (labels, time, text, pairs) in zip(found, expected, strict=True):
        assert row["resource_attributes"] == sorted(labels.items())
        assert row["timestamp"] == (time if time < 2**63 // 10**9 * 10**9 else NOW)
        assert row["body"] == text
        assert dict(row["attributes"]) == (pairs or {})


@pytest.mark.parametrize(
    ("encoding", "compress"),
    [
        ("", lambda body: body),
        ("gzip", gzip.compress),
        ("deflate", zlib.compress),
        ("deflate", lambda body: (made := zlib.compressobj(wbits=-15)).compress(body) + made.flush()),
        ("zstd", zstandard.ZstdCompressor().compress),
        ("snappy", snappy),
    ],
)
def test_compressed_bodies(encoding: str, compress: Callable[[bytes], bytes], tmp_path: Path) -> None:
    config = settings(tmp_path)

    async def scenario(served: Served) -> None:
        body = body_of(({"app": "shop"}, [(TIME + 1, "a" * 5000, {"level": "error", "n": "\u00e9"})]))
        answer = await push_json(served, compress(body), content_encoding=encoding)
        assert (answer.status_code, answer.content) == (204, b"")
        (row,) = (await asyncio.to_thread(rows, config)).to_pylist()
        assert (row["body"], row["service_name"], row["severity_number"]) == ("a" * 5000, "shop", 17)
        assert row["attributes"] == [("level", "error"), ("n", "\u00e9")]
        assert row["timestamp_ns"] == 1

    run(config, scenario)


@pytest.mark.parametrize(
    ("body", "reason"),
    [
        (b"", "Expecting value"),
        (b"{", "line 1 column 2"),
        (b"[]", "it is no object with `streams`"),
        (b"{}", "it is no object with `streams`"),
        (b'{"streams": 5}', "streams: it is no list"),
        (b'{"streams": [{}, 5]}', "streams[1]: it is no object"),
        (b'{"streams": [{"stream": []}]}', "streams[0].stream: it is no object of names and texts: []"),
        (b'{"streams": [{"stream": {"a": {}}}]}', 'streams[0].stream: "a" is no text: {}'),
        (b'{"streams": [{"values": {}}]}', "streams[0].values: it is no list"),
        (b'{"streams": [{"values": [["1"]]}]}', "streams[0].values[0]: it is no list of time, line and perhaps"),
        (b'{"streams": [{}, {"values": [["1", "a"], 7]}]}', "streams[1].values[1]: it is no list of time, line"),
        (b'{"streams": [{"values": [["1", "a", {}, 1]]}]}', "streams[0].values[0]: it is no list of time, line"),
        (b'{"streams": [{"values": [[1, "a"]]}]}', "streams[0].values[0]: the time is no text of nanoseconds: 1"),
        (b'{"streams": [{"values": [["1.5", "a"]]}]}', 'the time is no text of nanoseconds: "1.5"'),
        (b'{"streams": [{"values": [["", "a"]]}]}', 'the time is no text of nanoseconds: ""'),
        (b'{"streams": [{"values": [["9223372036854775808", "a"]]}]}', "the time is no text of nanoseconds"),
        (b'{"streams": [{"values": [["1", 7]]}]}', "streams[0].values[0]: the line is no text: 7"),
        (b'{"streams": [{"values": [["1", "a", []]]}]}', "streams[0].values[0]: it is no object of names and texts"),
        (b'{"streams": [{"values": [["1", "a", {"b": [1]}]]}]}', 'streams[0].values[0]: "b" is no text: ["1"]'),
        (b'{"streams": [{"stream": {"a": NaN}}]}', "NaN is no JSON"),
        (b"[" * 100_000, "recursion"),
    ],
)
def test_wrong_bodies_are_explained(body: bytes, reason: str, tmp_path: Path) -> None:
    async def scenario(served: Served) -> None:
        answer = await push_json(served, body)
        assert answer.status_code == 400
        assert answer.text.startswith("The body is no push request in JSON: ")
        assert reason in answer.text
        assert served.stored() == 0

    run(settings(tmp_path), scenario)


@pytest.mark.parametrize(
    ("body", "headers", "code", "reason"),
    [
        (line("a"), {"content-encoding": "gzip"}, 400, "The body is not gzip"),
        (line("a"), {"content-encoding": "br"}, 415, "'br' is none of the encodings"),
        (gzip.compress(bytes(1 << 24), mtime=0), {"content-encoding": "gzip"}, 413, "`telemetry.max_body_mb`"),
        (body_of(({"": "a"}, [(1, "a", None)])), {}, 400, "streams[0]: a label has no name"),
    ],
)
def test_wrong_requests_are_explained(
    body: bytes, headers: dict[str, str], code: int, reason: str, tmp_path: Path
) -> None:
    async def scenario(served: Served) -> None:
        answer = await push_json(served, body, **headers)
        assert answer.status_code == code
        assert reason in answer.text
        assert served.stored() == 0

    run(settings(tmp_path, telemetry={"max_body_mb": 1}), scenario)


def test_what_loki_takes_beside_text() -> None:
    body = b"""\xef\xbb\xbf{"other": 1, "streams": [
        {"stream": {"n": 1.50, "yes": true, "none": null},
         "values": [null, ["-5", "a\\ud800"], ["0", "b", {"n": 7}]]},
        {"stream": {"app": "x"}, "values": null},
        {"values": [["3", "caf\xe9"]]}
    ]}"""
    first, second, third = plain(rows_of(to_protobuf(body)))
    assert first["resource_attributes"] == [("n", "1.50"), ("none", "null"), ("yes", "true")]
    assert first["body"].startswith("a\N{REPLACEMENT CHARACTER}")
    assert (first["timestamp"], second["timestamp"]) == (NOW, NOW)
    assert second["attributes"] == [("n", "7")]
    assert (third["body"], third["resource_attributes"]) == ("caf\N{REPLACEMENT CHARACTER}", [])


def test_numbers_are_texts_as_they_are_written() -> None:
    numbers = ["-0", "0.10", "1E+400", "9" * 5000]
    labels = ", ".join(f'"n{at}": {number}' for at, number in enumerate(numbers))
    (row,) = plain(
        rows_of(to_protobuf(f'{{"streams": [{{"stream": {{{labels}}}, "values": [["1", "a"]]}}]}}'.encode()))
    )
    assert [value for _, value in row["resource_attributes"]] == numbers


def test_numbers_take_little_memory() -> None:
    body = b'{"streams": [], "other": [' + b"1," * 500_000 + b"1]}"
    tracemalloc.start()
    try:
        to_protobuf(body)
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert peak < 15 * len(body)


def test_a_request_without_streams_is_fine(tmp_path: Path) -> None:
    async def scenario(served: Served) -> None:
        assert (await push_json(served, b'{"streams": []}')).status_code == 204
        assert served.stored() == 0

    run(settings(tmp_path), scenario)


def test_the_same_request_again_is_stored_once(tmp_path: Path) -> None:
    config = settings(tmp_path)

    async def scenario(served: Served) -> None:
        for _ in range(2):
            assert (await push_json(served, line("a"))).status_code == 204
            assert served.stored() == 1

    run(config, scenario)
    run(config, scenario)


json_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=5) | st.just("17"),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(st.sampled_from(["streams", "stream", "values", "a"]), inner, max_size=3)
    ),
    max_leaves=20,
)


@given(value=json_values)
def test_any_json(value: Any) -> None:
    for body in (value, {"streams": value}, {"streams": [{"stream": value, "values": value}]}):
        try:
            made = to_protobuf(json.dumps(body).encode())
        except RequestError:
            continue
        rows_of(made)
