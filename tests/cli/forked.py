"""Runs commands of Frazil in processes that are forked from one that has imported all of it.

Importing takes a second of CPU time, and most commands of the tests do little else. A forked command has its own
memory, arguments, environment and exit code, as if it had been started anew.
"""

from __future__ import annotations

import array
import atexit
import contextlib
import importlib
import json
import os
import selectors
import signal
import socket
import subprocess
import sys
import threading
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import NoReturn, TypedDict

from frazil.cli.app import main
from frazil.cli.commands import COMMANDS
from frazil.footprint import own_process

_REPOSITORY = Path(__file__).parents[2]
_MODULES = ("httpx", "pyarrow.dataset", "pyiceberg.catalog.sql", "rich.table")
"""These and the modules of all commands import nearly all that a command needs."""


class _Request(TypedDict):
    arguments: list[str]
    folder: str
    environment: dict[str, str]


class ForkedCommands:
    """Forks commands from a process that is started with the first of them."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._process: subprocess.Popen[bytes] | None = None
        self._socket: socket.socket | None = None

    def run(
        self,
        arguments: Sequence[str],
        folder: Path,
        environment: Mapping[str, str],
        timeout: float,
        content: bytes = b"",
    ) -> subprocess.CompletedProcess[str]:
        """Runs `frazil` with these arguments and `content` as its input, as `subprocess.run` would."""
        ours, theirs = _channel()
        files = [os.memfd_create(name) for name in ("stdin", "stdout", "stderr")]
        try:
            with ours, theirs:
                os.pwrite(files[0], content, 0)
                request = _Request(arguments=[*arguments], folder=str(folder), environment={**environment})
                with self._lock:
                    _send(self._connected(), request, [theirs.fileno(), *files])
                theirs.close()
                code = _code_of(ours, ["frazil", *arguments], timeout)
            return subprocess.CompletedProcess(["frazil", *arguments], code, *map(_text, files[1:]))
        finally:
            for file in files:
                os.close(file)

    def stop(self) -> None:
        with self._lock:
            if self._socket is not None:
                self._socket.close()
            if self._process is not None:
                self._process.wait()
            self._process = self._socket = None

    def _connected(self) -> socket.socket:
        if self._socket is None:
            self._socket, theirs = _channel()
            with theirs:
                self._process = subprocess.Popen(
                    [sys.executable, "-m", "tests.cli.forked", str(theirs.fileno())],
                    cwd=_REPOSITORY,
                    # Like a command's own: Arrow reads it when it is imported.
                    env={**os.environ, "ARROW_DEFAULT_MEMORY_POOL": "system"},
                    stdin=subprocess.DEVNULL,
                    pass_fds=[theirs.fileno()],
                )
            atexit.register(self.stop)
        return self._socket


def _channel() -> tuple[socket.socket, socket.socket]:
    """Returns two ends that messages pass between, each as a whole."""
    return socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)


def _send(connection: socket.socket, request: _Request, files: Sequence[int]) -> None:
    """Sends the request in a file of its own, because a message between processes must be short."""
    content = os.memfd_create("request")
    try:
        with open(content, "w", closefd=False) as file:
            json.dump(request, file)
        connection.sendmsg([b"!"], [(socket.SOL_SOCKET, socket.SCM_RIGHTS, array.array("i", [content, *files]))])
    finally:
        os.close(content)


def _code_of(connection: socket.socket, command: list[str], timeout: float) -> int:
    # Before the first command all is imported, however slow the machine is.
    pid = int(connection.recv(20))
    connection.settimeout(timeout)
    try:
        return int(connection.recv(20))
    except TimeoutError:
        os.kill(pid, signal.SIGKILL)
        raise subprocess.TimeoutExpired(command, timeout) from None


def _text(file: int) -> str:
    return os.pread(file, os.fstat(file).st_size, 0).decode()


def _serve(connection: socket.socket) -> None:
    """Forks a command for each request, and tells its process id and exit code, until nobody can ask any more."""
    _import_all()
    with selectors.DefaultSelector() as selector:
        selector.register(connection, selectors.EVENT_READ)
        while True:
            for key, _ in selector.select():
                if key.data is None:
                    message, files, _, _ = socket.recv_fds(connection, 1, 5, socket.MSG_CMSG_CLOEXEC)
                    if not message:
                        return
                    pid, teller = _fork(connection, files)
                    selector.register(os.pidfd_open(pid), selectors.EVENT_READ, (pid, teller))
                else:
                    pid, teller = key.data
                    code = os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])
                    selector.unregister(key.fd)
                    os.close(key.fd)
                    _tell(teller, code)
                    teller.close()


def _import_all() -> None:
    own_process()
    for name in (*_MODULES, *(command.target.partition(":")[0] for command in COMMANDS)):
        importlib.import_module(name)


def _fork(connection: socket.socket, files: list[int]) -> tuple[int, socket.socket]:
    content, teller, *streams = files
    pid = os.fork()
    if pid == 0:
        connection.close()
        os.close(teller)
        _become(json.loads(_text(content)), streams)
    for each in (content, *streams):
        os.close(each)
    told = socket.socket(fileno=teller)
    _tell(told, pid)
    return pid, told


def _tell(teller: socket.socket, number: int) -> None:
    # The test may have given up waiting.
    with contextlib.suppress(BrokenPipeError):
        teller.send(b"%d" % number)


def _become(request: _Request, streams: list[int]) -> NoReturn:
    """Turns this process into the command."""
    for number, stream in enumerate(streams):
        os.dup2(stream, number)
        os.close(stream)
    sys.stdin = open(0, closefd=False)  # noqa: SIM115
    sys.stdout = open(1, "w", closefd=False)  # noqa: SIM115
    sys.stderr = open(2, "w", buffering=1, errors="backslashreplace", closefd=False)  # noqa: SIM115
    os.chdir(request["folder"])
    os.environ.clear()
    os.environ.update(request["environment"])
    command = Path(sys.executable).with_name("frazil")
    sys.argv = [str(command), *request["arguments"]]
    sys.path[0] = str(command.parent)
    main()


if __name__ == "__main__":
    _serve(socket.socket(fileno=int(sys.argv[1])))
