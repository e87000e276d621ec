"""Tests TLS of Danube's protocol: only clients that trust the certificate can connect."""

from __future__ import annotations

from pathlib import Path

import grpc
import grpc.aio
import pytest

from frazil.app.parts.topics import TopicsPart
from tests.doors.danube.support import TOPIC, Calls, run
from tests.servers.secure import certificate


def test_a_producer_that_trusts_the_certificate(tmp_path: Path) -> None:
    authority = tmp_path / "authority.pem"
    cert, key = certificate(tmp_path, authority)

    async def scenario(plain: Calls, part: TopicsPart) -> None:
        trusted = grpc.ssl_channel_credentials(authority.read_bytes())
        async with grpc.aio.secure_channel(f"127.0.0.1:{part.danube_port}", trusted) as channel:
            calls = Calls(channel)
            await calls.send(b"secret", await calls.producer())
        assert (await part._topics().get_topic_stats(TOPIC)).message_count == 1
        with pytest.raises(grpc.aio.AioRpcError) as refused:
            await plain.producer()
        assert refused.value.code() is grpc.StatusCode.UNAVAILABLE

    run(tmp_path, scenario, tls={"cert": cert, "key": key})
