"""Tests that the schema registry of the tests is a real one with Confluent's API, also through proxies."""

from __future__ import annotations

import json
import ssl
import uuid

import httpx
import pytest

from tests.servers.proxy import Proxy
from tests.servers.registry import RegistryServer
from tests.servers.secure import PASSWORD, USER, SecureProxy

_AVRO = json.dumps({"type": "record", "name": "Order", "fields": [{"name": "id", "type": "long"}]})


def test_schemas_of_every_kind(registry: RegistryServer) -> None:
    subject = uuid.uuid4().hex
    avro = registry.register(f"{subject}-avro", _AVRO)
    assert json.loads(httpx.get(f"{registry.url}/schemas/ids/{avro}").json()["schema"])["name"] == "Order"
    registry.register(f"{subject}-json", '{"type": "object", "properties": {"id": {"type": "integer"}}}', "JSON")
    registry.register(f"{subject}-base", 'syntax = "proto3"; message Base { int64 id = 1; }', "PROTOBUF")
    referring = registry.register(
        f"{subject}-top",
        'syntax = "proto3"; import "base.proto"; message Top { Base base = 1; }',
        "PROTOBUF",
        [{"name": "base.proto", "subject": f"{subject}-base", "version": 1}],
    )
    assert httpx.get(f"{registry.url}/schemas/ids/{referring}").json()["references"][0]["name"] == "base.proto"


def test_a_registry_that_fails(registry: RegistryServer, registry_proxy: Proxy) -> None:
    url = registry.url_at(registry_proxy.endpoint)
    registry_proxy.on("GET").answer(503, times=1)
    assert httpx.get(f"{url}/subjects").status_code == 503
    assert httpx.get(f"{url}/subjects").status_code == 200


def test_only_who_trusts_and_knows_gets_in(registry: RegistryServer, secure_registry: SecureProxy) -> None:
    url = f"{registry.url_at(secure_registry.endpoint)}/subjects"
    trusting = ssl.create_default_context(cafile=str(secure_registry.authority))
    assert httpx.get(url, verify=trusting).status_code == 401
    assert httpx.get(url, verify=trusting, auth=(USER, PASSWORD)).status_code == 200
    with pytest.raises(httpx.ConnectError):
        httpx.get(url)
