"""Runs the life of a partition again and again, with a fault at one system call after the other.

Run it with `python -m tests.faults.every_step kill|eio|enospc SYNC FIRST STEP`. The fault is at system call FIRST,
then FIRST + STEP, and so on until a life ends without reaching it. Each time everything acknowledged must be found
again, once.
"""

from __future__ import annotations

import errno
import logging
import os
import random
import shutil
import sys
import tempfile
from collections.abc import Callable
from concurrent.futures import Executor, Future
from pathlib import Path
from typing import Any

from frazil.errors import FrazilError
from frazil.log.positions import Origin, Sequence
from frazil.log.wal.directory import Wal
from frazil.log.writer.writer import PartitionWriter
from frazil.store.local import LocalStore
from tests.log import support
from tests.log.support import Machine, crash, ids, reader, rows, writer

CALLS = ["open", "pwritev", "pwrite", "write", "ftruncate", "fsync", "fdatasync", "rename", "link", "unlink"]
ERRORS = {"eio": errno.EIO, "enospc": errno.ENOSPC}
SESSIONS = 3


class InThisThread(Executor):
    """Runs calls in this thread, so that the n-th call is the same one every time."""

    def submit(self, function: Callable[..., Any], /, *args: Any, **kwargs: Any) -> Future[Any]:
        future: Future[Any] = Future()
        try:
            future.set_result(function(*args, **kwargs))
        except Exception as error:  # noqa: BLE001 - that is what an executor does
            future.set_exception(error)
        return future


class Fault:
    """A fault at the n-th system call of this process, once."""

    def __init__(self, at: int, strike: Callable[[], None]) -> None:
        self.struck = False
        self._at, self._strike, self._calls = at, strike, 0
        self._real = {name: getattr(os, name) for name in CALLS}
        for name, function in self._real.items():
            setattr(os, name, self.counting(function))

    def counting(self, function: Callable[..., Any]) -> Callable[..., Any]:
        def call(*args: Any, **kwargs: Any) -> Any:
            self._calls += 1
            if self._calls == self._at:
                self.struck = True
                self._strike()
            return function(*args, **kwargs)

        return call

    def end(self) -> None:
        for name, function in self._real.items():
            setattr(os, name, function)


def opened(folder: Path, machine: Machine, sync: str) -> PartitionWriter:
    return writer(LocalStore(folder / "store"), folder, machine, sync=sync, max_file_bytes=3000)


def live(folder: Path, machine: Machine, sync: str, acknowledged: Callable[[int, int], None]) -> None:
    """Appends, rotates, seals, stops and crashes. What fails is tried again or left."""
    number = 0
    for session in range(SESSIONS):
        w = tried(lambda: opened(folder, machine, sync))
        if w is None:
            return
        for part in range(3):
            for _ in range(2):
                origin = Origin(sequence=Sequence("p", number))
                ack = tried(lambda w=w, n=number, o=origin: w.append(rows(n * 10, 10), o), times=1)  # type: ignore[misc]
                if ack is not None:
                    acknowledged(number, ack.offset)
                number += 1
            if part != 1:
                tried(w.seal)
        if session == 1:
            tried(w.close, times=1)
        crash(w)


def tried(what: Callable[[], Any], times: int = 3) -> Any:
    """Calls a function up to three times. Only Frazil's own errors may be raised."""
    for _ in range(times):
        try:
            return what()
        except FrazilError:
            continue
    return None


def check(folder: Path, acknowledged: list[tuple[int, int]], sync: str, machine: Machine, where: str) -> None:
    store = LocalStore(folder / "store")
    w = opened(folder, machine, sync)
    found = ids(reader(store, w).read(0))
    for number, offset in acknowledged:
        assert found[offset : offset + 10] == list(range(number * 10, number * 10 + 10)), f"{where}: {number} is lost"
    assert len(set(found)) == len(found), f"{where}: something is there twice"
    if acknowledged:
        number, offset = acknowledged[-1]
        again = w.append(rows(number * 10, 10), Origin(sequence=Sequence("p", number)))
        assert (again.offset, again.duplicate) == (offset, True), f"{where}: a repeat is not recognised"
    w.seal_all()
    assert ids(reader(store).read(0)) == found, f"{where}: sealed is not what was there"
    w.close()


def killed_at(at: int, folder: Path, sync: str) -> tuple[list[tuple[int, int]], bool]:
    """Runs a life in a child that exits at the n-th call.

    Returns what it acknowledged, and whether it got that far.
    """
    read, write = os.pipe()
    child = os.fork()
    if child == 0:
        tell = os.write
        fault = Fault(at, lambda: os._exit(9))
        # A write to the memory-mapped watermark is no system call, but the process may die there too.
        setattr(Wal, "publish", fault.counting(Wal.publish))  # noqa: B010
        live(folder, Machine(), sync, lambda number, offset: void(tell(write, f"{number} {offset}\n".encode())))
        os._exit(0)
    os.close(write)
    with os.fdopen(read) as pipe:
        told = [tuple(map(int, line.split())) for line in pipe]
    code = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
    assert code in (0, 9), f"the life ended with {code}"
    return [(a, b) for a, b in told], code == 9


def void(_: object) -> None:
    return None


def failed_at(at: int, folder: Path, sync: str, code: int) -> tuple[list[tuple[int, int]], bool]:
    def strike() -> None:
        raise OSError(code, os.strerror(code))

    acknowledged: list[tuple[int, int]] = []
    fault = Fault(at, strike)
    try:
        live(folder, Machine(), sync, lambda number, offset: acknowledged.append((number, offset)))
    finally:
        fault.end()
    return acknowledged, fault.struck


def main(kind: str, sync: str, first: int, step: int) -> int:
    logging.disable(logging.CRITICAL)
    support.EXECUTOR = InThisThread()
    at, points = first, 0
    while True:
        folder = Path(tempfile.mkdtemp(prefix="frazil-step-"))
        try:
            if kind == "kill":
                acknowledged, struck = killed_at(at, folder, sync)
            else:
                acknowledged, struck = failed_at(at, folder, sync, ERRORS[kind])
            check(folder, acknowledged, sync, Machine(random.Random(at).randint(1, 99)), f"{kind} at call {at}")
        finally:
            shutil.rmtree(folder)
        if not struck:
            return points
        points += 1
        at += step


if __name__ == "__main__":
    sys.stdout.write(f"{main(sys.argv[1], sys.argv[2], int(sys.argv[3]), int(sys.argv[4]))}\n")
