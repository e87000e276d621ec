"""A schema is asked for once; a registry that is down is waited for, and what it has said before still counts."""

from __future__ import annotations

import json
import pickle
import uuid
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from pydantic import SecretStr

from frazil.config.model import Config
from frazil.config.sections.kafka import KafkaConfig, RegistryConfig
from frazil.config.sections.retry import BreakerConfig
from frazil.errors import (
    ConfigError,
    DependencyUnavailable,
    RegistryError,
    RegistryRefused,
    RegistryUnavailable,
    SchemaNotRegistered,
)
from frazil.formats.registry.client import NEWEST_SECONDS, UNKNOWN_SECONDS, Registry, RegistryClient
from tests.servers.proxy import Proxy
from tests.servers.registry import RegistryServer
from tests.servers.secure import PASSWORD, USER, SecureProxy

NOT_THERE = 2_000_000_000
GUID = "11111111-1111-1111-1111-111111111111"


@pytest.fixture
def subject() -> str:
    """With characters that an address must not have as they are."""
    return f"a topic/ü-{uuid.uuid4().hex}-value"


@pytest.fixture
def through(registry_proxy: Proxy, tmp_path: Path) -> Registry:
    """The registry behind the proxy."""
    url = RegistryServer.url_at(registry_proxy.endpoint)
    return Registry(RegistryConfig(url=url, timeout_seconds=60.0), tmp_path / "schemas", BreakerConfig())


def record(name: str, *fields: tuple[str, Any]) -> str:
    own = [{"name": field, "type": kind} for field, kind in fields]
    return json.dumps({"type": "record", "name": name, "namespace": "tests", "fields": own})


def register(registry: RegistryServer, subject: str, *arguments: Any, **more: Any) -> int:
    return registry.register(subject.replace("/", "%2F"), *arguments, **more)


def test_references_are_followed(registry: RegistryServer, through: Registry, subject: str) -> None:
    register(registry, f"{subject}-1", record("Inner", ("a", "int")))
    inner = {"name": "tests.Inner", "subject": f"{subject}-1", "version": 1}
    register(registry, f"{subject}-2", record("Middle", ("inner", "tests.Inner")), references=[inner])
    middle = {"name": "tests.Middle", "subject": f"{subject}-2", "version": 1}
    number = register(registry, subject, record("Outer", ("middle", "tests.Middle")), references=[middle])
    found = through.schema(number)
    assert found.kind == "AVRO"
    assert json.loads(found.text)["name"] == "Outer"
    assert [each.name for each in found.references] == ["tests.Middle"]
    assert [each.name for each in found.references[0].schema.references] == ["tests.Inner"]
    assert through.newest(subject) == found


def test_asked_once_and_then_known_without_it(
    registry: RegistryServer, through: Registry, registry_proxy: Proxy, subject: str
) -> None:
    number = register(registry, subject, record("R", ("a", "int")))
    found = through.schema(number)
    assert registry_proxy.count("GET") == 1
    registry_proxy.down()
    # The same settings are the same client, also after they were sent somewhere.
    assert pickle.loads(pickle.dumps(through)).schema(number) == found
    # Another process has the disk.
    assert RegistryClient(through).schema(number) == found
    with pytest.raises(RegistryUnavailable, match="does not answer"):
        RegistryClient(through).schema(number + 1)


@pytest.mark.parametrize("damage", [b"", b"{}", b"0000\n{}", b"\xff\xfe"])
def test_a_damaged_file_is_asked_for_again(
    registry: RegistryServer, through: Registry, subject: str, damage: bytes, caplog: pytest.LogCaptureFixture
) -> None:
    number = register(registry, subject, record("R", ("a", "int")))
    found = through.schema(number)
    (file,) = through.folder.rglob("*.json")
    file.write_bytes(damage)
    assert RegistryClient(through).schema(number) == found
    assert str(file) in caplog.text
    assert file.read_bytes() != damage


def test_a_disk_that_takes_nothing_stops_nobody(
    registry: RegistryServer, through: Registry, subject: str, caplog: pytest.LogCaptureFixture
) -> None:
    number = register(registry, subject, record("R", ("a", "int")))
    through.folder.parent.mkdir(exist_ok=True)
    through.folder.write_text("a file where the folder should be")
    assert through.schema(number).kind == "AVRO"
    assert "cannot be kept" in caplog.text


def test_hiccups_are_bridged(
    registry: RegistryServer,
    through: Registry,
    registry_proxy: Proxy,
    subject: str,
    caplog: pytest.LogCaptureFixture,
) -> None:
    number = register(registry, subject, record("R", ("a", "int")))
    registry_proxy.on("GET").answer(503, times=1)
    registry_proxy.on("GET").cut_reply(times=1)
    assert through.schema(number).kind == "AVRO"
    assert registry_proxy.count("GET") == 3
    assert caplog.text.count("It is asked again in") == 2


@pytest.mark.parametrize(
    ("status", "body", "error"),
    [
        (500, b'{"error_code": 50001, "message": "the store is away"}', RegistryUnavailable),
        (429, b"", RegistryUnavailable),
        (200, b"<html>", RegistryError),
        (404, b"<html>no such page</html>", RegistryError),
        (404, b'{"error_code": 404, "message": "no such path"}', RegistryError),
        (401, b"", RegistryRefused),
        (403, b'{"error_code": 40301}', RegistryRefused),
        (404, b'{"error_code": 40403, "message": "Schema not found"}', SchemaNotRegistered),
    ],
)
def test_answers_are_told_apart(
    through: Registry, registry_proxy: Proxy, status: int, body: bytes, error: type[RegistryError]
) -> None:
    registry_proxy.on("GET").answer(status, body)
    with pytest.raises(RegistryError) as caught:
        through.schema(1)
    assert type(caught.value) is error
    assert caught.value.retryable is (error is RegistryUnavailable)


def test_what_is_not_there(through: Registry, registry_proxy: Proxy, clock: Clock, subject: str) -> None:
    client = RegistryClient(through, clock)
    for _ in range(2):
        with pytest.raises(SchemaNotRegistered, match=str(NOT_THERE)):
            client.schema(NOT_THERE)
    assert registry_proxy.count("GET") == 1
    clock.now += UNKNOWN_SECONDS + 1
    with pytest.raises(SchemaNotRegistered):
        client.schema(NOT_THERE)
    assert registry_proxy.count("GET") == 2
    assert client.newest(subject) is None


def test_bytes_that_look_like_a_guid_are_no_schema(through: Registry, registry_proxy: Proxy, clock: Clock) -> None:
    """The registry of these tests has no GUIDs: to ask it for one is as to ask a wrong address."""
    client = RegistryClient(through, clock)
    for _ in range(2):
        with pytest.raises(SchemaNotRegistered, match=GUID):
            client.schema(GUID)
    assert registry_proxy.count("GET") == 2, "once whether it is a registry, once for the schema"
    with pytest.raises(SchemaNotRegistered):
        client.schema(GUID.replace("1", "2"))
    assert registry_proxy.count("GET") == 3


def test_a_guid_at_a_wrong_address(through: Registry, registry_proxy: Proxy) -> None:
    registry_proxy.on("GET").answer(404, b"")
    with pytest.raises(RegistryError, match="not how a schema registry answers") as caught:
        RegistryClient(through).schema(GUID)
    assert not isinstance(caught.value, SchemaNotRegistered)


def test_numbers_that_no_registry_gives_are_not_asked_for(through: Registry, registry_proxy: Proxy) -> None:
    with pytest.raises(SchemaNotRegistered, match=str(2**31)):
        through.schema(2**31)
    assert registry_proxy.count("GET") == 0


def test_a_newer_schema_is_noticed(registry: RegistryServer, through: Registry, clock: Clock, subject: str) -> None:
    client = RegistryClient(through, clock)
    register(registry, subject, record("R", ("a", "int")))
    first = client.newest(subject)
    register(registry, subject, record("R", ("a", "int"), ("b", "string")))
    assert client.newest(subject) == first
    clock.now += NEWEST_SECONDS + 1
    second = client.newest(subject)
    assert second is not None
    assert [field["name"] for field in json.loads(second.text)["fields"]] == ["a", "b"]


def test_a_registry_that_keeps_failing_is_left_alone(through: Registry, registry_proxy: Proxy) -> None:
    client = RegistryClient(through)
    registry_proxy.on("GET").answer(500)
    for _ in range(through.breaker.failure_threshold):
        with pytest.raises(RegistryUnavailable):
            client.schema(1)
    asked = registry_proxy.count("GET")
    with pytest.raises(DependencyUnavailable) as caught:
        client.schema(1)
    assert caught.value.retryable
    assert registry_proxy.count("GET") == asked


@pytest.mark.parametrize(
    ("change", "complaint"),
    [
        (lambda config: config, None),
        (lambda config: config.model_copy(update={"password": SecretStr("wrong")}), "refuses"),
        (lambda config: config.model_copy(update={"ca_location": None}), "not trusted"),
        (lambda config: config.model_copy(update={"username": None}), "refuses"),
    ],
)
def test_secured(
    registry: RegistryServer,
    secure_registry: SecureProxy,
    tmp_path: Path,
    subject: str,
    change: Callable[[RegistryConfig], RegistryConfig],
    complaint: str | None,
) -> None:
    number = register(registry, subject, record("R", ("a", "int")))
    config = RegistryConfig(
        url=RegistryServer.url_at(secure_registry.endpoint),
        username=USER,
        password=SecretStr(PASSWORD),
        ca_location=secure_registry.authority,
    )
    secured = Registry(change(config), tmp_path / "schemas", BreakerConfig())
    if complaint is None:
        assert secured.schema(number).kind == "AVRO"
        return
    with pytest.raises(RegistryRefused, match=complaint) as caught:
        secured.schema(number)
    assert PASSWORD not in str(caught.value)


def test_credentials_in_the_address_work_and_are_not_told(
    registry: RegistryServer, secure_registry: SecureProxy, tmp_path: Path, subject: str
) -> None:
    number = register(registry, subject, record("R", ("a", "int")))
    url = RegistryServer.url_at(secure_registry.endpoint.replace("://", f"://{USER}:{PASSWORD}@"))
    config = RegistryConfig(url=url, ca_location=secure_registry.authority)
    secured = Registry(config, tmp_path / "schemas", BreakerConfig())
    assert secured.schema(number).kind == "AVRO"
    with pytest.raises(SchemaNotRegistered) as caught:
        secured.schema(NOT_THERE)
    assert PASSWORD not in str(caught.value)
    assert PASSWORD not in secured.check()


@pytest.mark.parametrize("url", [None, "localhost:8081", "http://", "ftp://host", "http://host:port"])
def test_an_address_that_is_none(url: str | None, tmp_path: Path) -> None:
    config = Config(data_dir=tmp_path, kafka=KafkaConfig(registry=RegistryConfig(url=url)))
    with pytest.raises(ConfigError, match=r"kafka\.registry\.url"):
        Registry.of(config).schema(1)


def test_certificates_that_cannot_be_read(tmp_path: Path) -> None:
    config = RegistryConfig(url="https://localhost", ca_location=tmp_path / "none.pem")
    with pytest.raises(ConfigError, match=r"none\.pem"):
        Registry(config, tmp_path, BreakerConfig()).schema(1)


class Clock:
    now = 1000.0

    def __call__(self) -> float:
        return self.now


@pytest.fixture
def clock() -> Clock:
    return Clock()
