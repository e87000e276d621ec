"""Finds the ports on which a process and its children listen, and what they answer without their secret."""

from __future__ import annotations

import os
import socket
import struct
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

LOOPBACK = ("0100007F", "0000000000000000FFFF00000100007F", "00000000000000000000000001000000")

GATEWAY = b"r\nu\njava.lang.System\nrj\ne\n"
CALLBACK = b"g\nnobody\ne\n"
"""Commands of Py4J to a gateway and to a callback port, without their tokens. The answer `y` means obeyed."""


def text(value: str) -> bytes:
    return struct.pack(">i", len(value)) + value.encode()


def name(value: str) -> bytes:
    """Encodes a name as Java does."""
    return struct.pack(">H", len(value)) + value.encode()


def frame(kind: int, body: bytes) -> bytes:
    """Encodes a message between Spark's processes. The length includes itself."""
    return struct.pack(">qb", 9 + len(body), kind) + body


def request(body: bytes) -> bytes:
    """Encodes a call of another process, with a number by which its answer is recognised."""
    return frame(3, struct.pack(">qi", 7, len(body)) + body)


def to_an_endpoint(port: int) -> bytes:
    """Encodes a call to the endpoint that lists the others.

    It has a Java object, which is decoded before it is checked.
    """
    return request(b"\0\1" + name("127.0.0.1") + struct.pack(">i", port) + name("endpoint-verifier") + STRING)


STRING = b"\xac\xed\0\5t" + name("hello")
OPEN_BLOCKS = request(b"\0" + text("app") + text("executor") + struct.pack(">i", 0))
FILE_OF_SPARK = frame(6, text("/files/x"))
NO_SUCH_STREAM = struct.pack(">b", 8)


class Listener(NamedTuple):
    port: int
    address: str
    commands: str
    """The commands of the processes that have the port."""
    waiting: int
    """How many connections nobody has accepted yet."""


def descendants(pid: int) -> Iterator[int]:
    yield pid
    for path in Path(f"/proc/{pid}/task").glob("*/children"):
        try:
            children = path.read_text().split()
        except OSError:
            # The thread has ended meanwhile.
            continue
        for child in children:
            yield from descendants(int(child))


def sockets(pid: int) -> set[str]:
    found = set()
    for path in Path(f"/proc/{pid}/fd").glob("*"):
        try:
            found.add(os.readlink(path))
        except OSError:
            continue
    return {name[len("socket:[") : -1] for name in found if name.startswith("socket:[")}


def listeners(pid: int) -> list[Listener]:
    owners: dict[str, str] = {}
    for each in set(descendants(pid)):
        command = Path(f"/proc/{each}/cmdline").read_bytes().replace(b"\0", b" ").decode()
        for inode in sockets(each):
            owners[inode] = f"{owners.get(inode, '')}\n{command}"
    found = []
    for table in ("tcp", "tcp6"):
        for line in Path(f"/proc/net/{table}").read_text().splitlines()[1:]:
            fields = line.split()
            if fields[3] == "0A" and fields[9] in owners:
                address, _, port = fields[1].partition(":")
                waiting = int(fields[4].partition(":")[2], 16)
                found.append(Listener(int(port, 16), address, owners[fields[9]], waiting))
    return found


def unix_listeners(pid: int) -> list[str]:
    inodes = {inode for each in set(descendants(pid)) for inode in sockets(each)}
    lines = [line.split(maxsplit=7) for line in Path("/proc/net/unix").read_text().splitlines()[1:]]
    return [" ".join(line[7:]) for line in lines if int(line[3], 16) & 0x10000 and line[6] in inodes]


def says(port: int, sent: bytes) -> bytes:
    """Returns what is answered before the connection is closed, or within two seconds."""
    answer = b""
    try:
        with socket.create_connection(("127.0.0.1", port), timeout=2) as connection:
            connection.sendall(sent)
            while more := connection.recv(65536):
                answer += more
    except OSError:
        return answer
    return answer


def is_gateway(port: int) -> bool:
    return b"Authentication error" in says(port, GATEWAY)


def is_of_spark(port: int) -> bool:
    """Returns whether it is a port of Spark, which accepts no call without the secret and returns nothing."""
    refused = b"Expected SaslMessage"
    if not all(refused in says(port, sent) for sent in (to_an_endpoint(port), OPEN_BLOCKS)):
        return False
    return says(port, FILE_OF_SPARK)[8:9] == NO_SUCH_STREAM


def is_of_workers(port: int) -> bool:
    """Returns whether it is a port of workers, which answers with a process id and refuses to work."""
    return says(port, text("wrong"))[4:] == text("err")


def is_page(port: int) -> bool:
    return says(port, b"GET / HTTP/1.0\r\n\r\n").startswith(b"HTTP/1.1 200")
