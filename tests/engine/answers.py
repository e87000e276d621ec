"""Has answers for tests of query processes, which import them by name."""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Iterator
from pathlib import Path

from frazil.engine.interface import QueryContext, QueryRequest, Reply
from frazil.errors import QueryError
from frazil.scan.interface import ScanRequest

PIECE = b"x" * 100_000


def echo(request: QueryRequest, context: QueryContext) -> Reply:
    """Answers with the body, and with the process that answered."""
    return Reply(200, {"process": str(os.getpid()), "tenants": "|".join(request.tenants)}, [request.body])


def refuse(request: QueryRequest, context: QueryContext) -> Reply:
    raise QueryError("There is no such thing.", 3, 7)


def fail_late(request: QueryRequest, context: QueryContext) -> Reply:
    def pieces() -> Iterator[bytes]:
        yield PIECE
        raise QueryError("It broke.")

    return Reply(200, {}, pieces())


def many(request: QueryRequest, context: QueryContext) -> Reply:
    """Answers with as many pieces as the body says, and writes down how many were made."""
    count, file = request.body.decode().split()

    def pieces() -> Iterator[bytes]:
        for number in range(int(count)):
            Path(file).write_text(str(number + 1))
            yield PIECE

    return Reply(200, {}, pieces())


def work(request: QueryRequest, context: QueryContext) -> Reply:
    """Works in small units until it is stopped; the body names a file that exists while it works."""
    file = Path(request.body.decode())
    file.touch()
    try:
        while True:
            context.check()
            time.sleep(0.005)
    finally:
        file.unlink()


def hang(request: QueryRequest, context: QueryContext) -> Reply:
    """Never looks whether it should stop."""
    while True:
        time.sleep(1)


def wait_for_file(request: QueryRequest, context: QueryContext) -> Reply:
    """Answers when there is the file that the body names."""
    while not Path(request.body.decode()).exists():
        context.check()
        time.sleep(0.005)
    return Reply(200, {"process": str(os.getpid())}, [])


def die(request: QueryRequest, context: QueryContext) -> Reply:
    os.kill(os.getpid(), signal.SIGKILL)
    raise AssertionError


def take_memory(request: QueryRequest, context: QueryContext) -> Reply:
    taken = []
    while True:
        taken.append(b"\1" * 50_000_000)


def scan(request: QueryRequest, context: QueryContext) -> Reply:
    """Answers with the number of rows of a topic."""
    rows = context.scanner.scan(ScanRequest(request.path_parameters["topic"], None)).table()
    return Reply(200, {"rows": str(len(rows))}, [])


def hold(request: QueryRequest, context: QueryContext) -> Reply:
    context.hold(int(request.body))
    return Reply(200, {}, [b"held"])


def read(request: QueryRequest, context: QueryContext) -> Reply:
    context.statistics.bytes_read = int(request.body)
    context.check()
    return Reply(200, {}, [])


def remember(request: QueryRequest, context: QueryContext) -> Reply:
    """Answers with what the cache of the process has under the body."""
    made = context.cache.get(("test", request.body), lambda: os.urandom(8).hex().encode(), len)
    return Reply(200, {"process": str(os.getpid())}, [made])
