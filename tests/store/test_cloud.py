"""Failures between us and a real S3 server become errors that say what to do."""

from __future__ import annotations

import socket
import time
from collections.abc import Callable
from pathlib import Path

import pytest
from pydantic import SecretStr

from frazil.config.sections.log import StoreConfig
from frazil.errors import ObjectExists, StorageError, StorageUnavailable
from frazil.store import ObjectStore, open_store
from tests.servers.proxy import Proxy
from tests.servers.shared import S3Server

TIMEOUT = 2.0
DATA = bytes(range(256)) * 40

# What obstore needs to see in an answer about an object.
OBJECT_HEADERS = {"Last-Modified": "Thu, 01 Jan 2026 00:00:00 GMT", "ETag": '"1"'}


@pytest.fixture
def proxied(s3_server: S3Server, s3_proxy: Proxy, s3_prefix: str, tmp_path: Path) -> ObjectStore:
    """A store of the same objects as `s3_store`, through the proxy."""
    return open_store(s3_server.config(s3_prefix, s3_proxy.endpoint, TIMEOUT), tmp_path)


def calls(store: ObjectStore) -> list[Callable[[], object]]:
    return [
        lambda: store.put_new("new", DATA),
        lambda: store.get("there"),
        lambda: store.get_range("there", 0, 1),
        lambda: store.get_tail("there", 1),
        lambda: list(store.list("")),
        lambda: store.list_folders(""),
        lambda: store.delete(["there", "here"]),
    ]


def assert_all_raise(store: ObjectStore, kind: type[StorageError], told: str) -> None:
    for call in calls(store):
        with pytest.raises(kind, match=told) as caught:
            call()
        assert type(caught.value) is kind
        assert store.url in str(caught.value)


def test_wrong_credentials(s3_server: S3Server, tmp_path: Path) -> None:
    wrong = s3_server.config("x").model_copy(update={"secret_access_key": SecretStr("not-it")})
    assert_all_raise(open_store(wrong, tmp_path), StorageError, "not allowed.*Check the credentials")


def test_a_missing_bucket(s3_server: S3Server, tmp_path: Path) -> None:
    elsewhere = s3_server.config("x").model_copy(update={"url": "s3://no-such-bucket/x"})
    assert_all_raise(open_store(elsewhere, tmp_path), StorageError, "bucket or container does not exist")


def test_nobody_listens(s3_server: S3Server, tmp_path: Path) -> None:
    with socket.socket() as bound:
        bound.bind(("127.0.0.1", 0))
        closed = f"http://127.0.0.1:{bound.getsockname()[1]}"
        store = open_store(s3_server.config("x", closed, TIMEOUT), tmp_path)
        assert_all_raise(store, StorageUnavailable, "cannot connect.*Check that the store is up")


@pytest.mark.parametrize("status", [429, 500, 503])
def test_a_failing_server(proxied: ObjectStore, s3_proxy: Proxy, status: int) -> None:
    s3_proxy.on().answer(status)
    assert_all_raise(proxied, StorageUnavailable, f"answered {status}")
    s3_proxy.clear()
    proxied.put_new("new", DATA)


def test_a_server_that_fails_once(proxied: ObjectStore, s3_proxy: Proxy) -> None:
    s3_proxy.on("PUT").answer(500, times=1)
    proxied.put_new("a", DATA)
    assert proxied.get("a").to_pybytes() == DATA
    assert s3_proxy.count("PUT") == 2


def test_a_request_that_never_arrives(proxied: ObjectStore, s3_proxy: Proxy) -> None:
    s3_proxy.on("PUT").drop_request(times=1)
    proxied.put_new("a", DATA)
    assert proxied.get("a").to_pybytes() == DATA


@pytest.mark.parametrize("times", [1, None])
def test_a_lost_acknowledgement(proxied: ObjectStore, s3_proxy: Proxy, times: int | None) -> None:
    s3_proxy.on("PUT", "*.parquet").drop_reply(times=times)
    with pytest.raises((ObjectExists, StorageUnavailable)):
        proxied.put_new("a.parquet", DATA)
    assert proxied.get("a.parquet").to_pybytes() == DATA


def test_an_acknowledgement_that_comes_too_late(proxied: ObjectStore, s3_proxy: Proxy) -> None:
    s3_proxy.on("PUT").delay_reply(60)
    with pytest.raises(StorageUnavailable):
        proxied.put_new("a", DATA)
    assert proxied.get("a").to_pybytes() == DATA


def test_a_put_that_lands_after_it_failed(proxied: ObjectStore, s3_proxy: Proxy, s3_store: ObjectStore) -> None:
    s3_proxy.on("PUT").delay(TIMEOUT + 0.5)
    with pytest.raises(StorageUnavailable):
        proxied.put_new("a", DATA)
    assert list(s3_store.list("")) == []
    until = time.monotonic() + 20
    while not list(s3_store.list("")) and time.monotonic() < until:
        time.sleep(0.05)
    assert s3_store.get("a").to_pybytes() == DATA


def test_two_puts_at_once_can_both_be_told_to_try_again(proxied: ObjectStore, s3_proxy: Proxy) -> None:
    """S3 answers 409 to a conditional put that races another; it does not say that the object exists."""
    s3_proxy.on("PUT").answer(409, b"<Error><Code>ConditionalRequestConflict</Code></Error>")
    with pytest.raises(StorageUnavailable, match="ConditionalRequestConflict"):
        proxied.put_new("a", DATA)


def test_a_silent_server_costs_no_more_than_the_timeout(proxied: ObjectStore, s3_proxy: Proxy) -> None:
    s3_proxy.on().delay(120)
    for call in (calls(proxied)[0], calls(proxied)[1], calls(proxied)[4]):
        started = time.monotonic()
        with pytest.raises(StorageUnavailable, match="no answer in time"):
            call()
        assert time.monotonic() - started < TIMEOUT + 30


def test_an_answer_that_breaks_off(proxied: ObjectStore, s3_proxy: Proxy) -> None:
    proxied.put_new("a", DATA)
    s3_proxy.on("GET").cut_reply(times=1)
    assert proxied.get("a").to_pybytes() == DATA
    s3_proxy.on("GET").cut_reply()
    with pytest.raises(StorageUnavailable, match="the connection broke"):
        proxied.get("a")


def test_a_store_that_comes_back(proxied: ObjectStore, s3_proxy: Proxy) -> None:
    proxied.put_new("a", DATA)
    s3_proxy.down()
    with pytest.raises(StorageUnavailable):
        proxied.get("a")
    s3_proxy.up()
    assert proxied.get("a").to_pybytes() == DATA


def test_a_tail_is_one_request(proxied: ObjectStore, s3_proxy: Proxy) -> None:
    proxied.put_new("a", DATA)
    proxied.get_tail("a", 100)
    assert (s3_proxy.count("GET"), s3_proxy.count("HEAD")) == (1, 0)


def azure(proxy: Proxy, tmp_path: Path) -> ObjectStore:
    config = StoreConfig(
        url="az://container/prefix",
        options={"endpoint": proxy.endpoint},
        access_key_id="account",
        secret_access_key=SecretStr("c2VjcmV0"),
        timeout_seconds=TIMEOUT,
    )
    return open_store(config, tmp_path)


def google(proxy: Proxy, tmp_path: Path) -> ObjectStore:
    config = StoreConfig(
        url="gs://bucket/prefix",
        options={"base_url": proxy.endpoint},
        session_token=SecretStr("token"),
        timeout_seconds=TIMEOUT,
    )
    return open_store(config, tmp_path)


def test_azure_says_409_when_an_object_exists(s3_proxy: Proxy, tmp_path: Path) -> None:
    s3_proxy.on("PUT").answer(409, b"<Error><Code>BlobAlreadyExists</Code></Error>")
    with pytest.raises(ObjectExists):
        azure(s3_proxy, tmp_path).put_new("a", DATA)


def test_azure_has_no_tails_but_sizes(s3_proxy: Proxy, tmp_path: Path) -> None:
    s3_proxy.on("HEAD").answer(200, b"0123456789", OBJECT_HEADERS)
    s3_proxy.on("GET").answer(206, b"789", {**OBJECT_HEADERS, "Content-Range": "bytes 7-9/10"})
    tail, size = azure(s3_proxy, tmp_path).get_tail("a", 3)
    assert (tail.to_pybytes(), size) == (b"789", 10)


def test_google_says_412_when_an_object_exists(s3_proxy: Proxy, tmp_path: Path) -> None:
    s3_proxy.on("PUT").answer(412)
    with pytest.raises(ObjectExists):
        google(s3_proxy, tmp_path).put_new("a", DATA)


def test_google_deletes_what_is_left_when_a_key_is_missing(s3_proxy: Proxy, tmp_path: Path) -> None:
    s3_proxy.on("DELETE", "*/missing").answer(404)
    s3_proxy.on("DELETE").answer(204)
    google(s3_proxy, tmp_path).delete(["missing"] + [f"k{number}" for number in range(30)])
    assert s3_proxy.count("DELETE") >= 31
