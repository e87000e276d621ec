"""gRPC messages that never complete, or are too many at once, take no more memory than allowed."""

from __future__ import annotations

import asyncio
import socket
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

import grpc
import grpc.aio
import pytest
from google.rpc.error_details_pb2 import RetryInfo
from google.rpc.status_pb2 import Status

from frazil.web import bodies
from frazil.web.grpc.received_bytes import ReceivedBytes, peer_of_call
from tests.doors.otlp.overloading import RECORDS, Door, door, request
from tests.doors.otlp.relay import silent_after
from tests.doors.otlp.support import LOGS, STATUS
from tests.doors.telemetry.support import Served, logs_request, run, settings

MIB = 1 << 20
ROOM = 64 * MIB
LATE = 96 * MIB
"""The bytes that may arrive on fast connections before they are counted, and what the allocator keeps."""
RETRYABLE = {"RESOURCE_EXHAUSTED", "UNAVAILABLE"}


class Answer(NamedTuple):
    code: str
    reason: str = ""
    may_retry: bool = False


async def send(port: int, body: bytes, **options: Any) -> Answer:
    """Sends a call over a connection of its own."""
    own = [("grpc.use_local_subchannel_pool", 1), ("grpc.max_send_message_length", -1)]
    async with grpc.aio.insecure_channel(f"127.0.0.1:{port}", options=own, **options) as opened:
        try:
            await opened.unary_unary(LOGS)(body)
        except grpc.aio.AioRpcError as error:
            details = dict(error.trailing_metadata() or ())
            told = Status.FromString(details[STATUS]).details if STATUS in details else []
            return Answer(
                error.code().name, error.details() or "", any(each.Is(RetryInfo.DESCRIPTOR) for each in told)
            )
        return Answer("OK")


@pytest.mark.parametrize("drips", [False, True])
def test_a_message_that_is_never_complete_gives_its_room_back(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, drips: bool
) -> None:
    async def scenario(served: Served) -> None:
        body = logs_request("x" * 900_000).SerializeToString()
        with monkeypatch.context() as patched:
            patched.setattr(bodies, "SILENCE_SECONDS", 60 if drips else 0.5)
            patched.setattr(bodies, "BODY_SECONDS", 1.0 if drips else 60)
            async with silent_after(800_000, served.door.grpc_port, drips) as port:
                sending = asyncio.create_task(send(port, body))
                taken = 0
                while not sending.done():
                    taken = max(taken, served.in_flight())
                    await asyncio.sleep(0.01)
                answer = await sending
        assert taken > 0
        assert (answer.code, answer.may_retry) == ("UNAVAILABLE", True)
        assert "The message is not complete" in answer.reason
        assert served.in_flight() == 0
        assert await send(served.door.grpc_port, body) == Answer("OK")
        assert served.stored() == 1

    run(settings(tmp_path), scenario)


def test_who_goes_in_the_middle_of_a_message_leaves_nothing_behind(tmp_path: Path) -> None:
    async def scenario(served: Served) -> None:
        async with silent_after(800_000, served.door.grpc_port) as port:
            sending = asyncio.create_task(send(port, logs_request("x" * 900_000).SerializeToString()))
            while served.in_flight() < 800_000:
                await asyncio.sleep(0.01)
        assert not (await sending).may_retry
        while served.in_flight():
            await asyncio.sleep(0.01)

    run(settings(tmp_path), scenario)


def test_calls_of_all_sizes_that_share_a_connection(tmp_path: Path) -> None:
    async def scenario(served: Served) -> None:
        sizes = [10, 60_000, 100, 3_000_000, 70_000, 1000, 8_000_000] * 4
        async with grpc.aio.insecure_channel(f"127.0.0.1:{served.door.grpc_port}") as opened:
            call = opened.unary_unary(LOGS)
            for _ in range(2):
                sent = [logs_request(f"{number} {'x' * size}") for number, size in enumerate(sizes)]
                await asyncio.gather(*(call(each.SerializeToString()) for each in sent))
                assert served.in_flight() == 0
        assert served.stored() == len(sizes)

    run(settings(tmp_path, telemetry={"limits": {"max_record_kb": 16 * 1024}}), scenario)


# --- in a process of its own, whose memory is looked at ---------------------------------------------------


# The tests share one process.
pytestmark = pytest.mark.xdist_group("incoming-messages")


@pytest.fixture(scope="module")
def opened(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Door]:
    with door(tmp_path_factory.mktemp("door"), max_in_flight_mb=ROOM // MIB) as running:
        yield running


class Memory:
    """Measures the most memory that a process takes from now on, beyond what it has."""

    def __init__(self, opened: Door) -> None:
        self._opened = opened
        # This makes Linux forget the earlier peak.
        Path(f"/proc/{opened.child.pid}/clear_refs").write_text("5")
        self._before = opened.memory("VmRSS")

    @property
    def grown(self) -> int:
        return self._opened.memory("VmHWM") - self._before


def test_stalled_messages_take_no_more_than_the_room(opened: Door) -> None:
    size, clients = 24 * MIB, 16

    async def scenario() -> None:
        async with silent_after(size, opened.ports.grpc) as port:
            sending = {asyncio.create_task(send(port, bytes(size + MIB))) for _ in range(clients)}
            # Two of them fit, and others are not kept.
            while len(sending) > ROOM // size:
                done, sending = await asyncio.wait(sending, return_when=asyncio.FIRST_COMPLETED)
                assert {(each.result().code, each.result().may_retry) for each in done} == {
                    ("RESOURCE_EXHAUSTED", True)
                }
            assert (await send(opened.ports.grpc, request("meanwhile", 1))).code == "OK"
            for each in sending:
                each.cancel()

    memory = Memory(opened)
    asyncio.run(asyncio.wait_for(scenario(), 100))
    assert memory.grown < ROOM + LATE, f"{memory.grown:,} bytes"
    assert opened.stored()["meanwhile"] == RECORDS


def test_many_large_messages_at_once(opened: Door) -> None:
    size, clients = 56 * MIB, 12
    services = [f"many-{number}" for number in range(clients)]
    blocks = size // len(request(services[0], 1))

    async def scenario() -> list[Answer]:
        return await asyncio.gather(*(send(opened.ports.grpc, request(each, blocks)) for each in services))

    memory = Memory(opened)
    answers = asyncio.run(asyncio.wait_for(scenario(), 100))
    grown = memory.grown
    assert all(each.code == "OK" or (each.code in RETRYABLE and each.may_retry) for each in answers)
    stored = [service for service, answer in zip(services, answers, strict=True) if answer.code == "OK"]
    assert stored
    found = {service: count for service, count in opened.stored().items() if service.startswith("many-")}
    assert found == dict.fromkeys(stored, blocks * RECORDS)
    # One is let in and becomes rows. All of them at once would be well over 800 MiB.
    assert grown < 768 * MIB, f"{grown:,} bytes"


def test_a_small_message_that_would_become_large(opened: Door) -> None:
    memory = Memory(opened)
    answer = asyncio.run(send(opened.ports.grpc, bytes(700 * MIB), compression=grpc.Compression.Gzip))
    assert (answer.code, answer.may_retry) == ("RESOURCE_EXHAUSTED", False)
    # The range goes up to the largest accepted message.
    assert memory.grown < 2 * 64 * MIB, f"{memory.grown:,} bytes"


# --- what the kernel knows --------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("peer", "expected"),
    [
        ("ipv4:127.0.0.1:4711", ("127.0.0.1", 4711)),
        ("ipv6:%5B::1%5D:4711", ("::1", 4711)),
        ("ipv6:[::ffff:10.0.0.1]:4711", ("10.0.0.1", 4711)),
        ("ipv6:%5Bfe80::1%25eth0%5D:4711", ("fe80::1", 4711)),
    ],
)
def test_addresses_of_clients(peer: str, expected: tuple[str, int]) -> None:
    assert peer_of_call(peer) == expected


@pytest.mark.parametrize("host", ["127.0.0.1", "::1"])
def test_what_a_connection_has_brought(host: str) -> None:
    with socket.create_server((host, 0), family=socket.AF_INET6 if ":" in host else socket.AF_INET) as listening:
        port = listening.getsockname()[1]
        received = ReceivedBytes(port)
        with socket.create_connection((host, port)) as client:
            peer = (host, client.getsockname()[1])
            server, _ = listening.accept()
            with server:
                assert received.of(peer) is None
                received.find()
                assert received.of(peer) == 0
                client.sendall(bytes(1000))
                assert server.recv(1000, socket.MSG_WAITALL) == bytes(1000)
                assert received.of(peer) == 1000
            assert received.of(peer) is None
