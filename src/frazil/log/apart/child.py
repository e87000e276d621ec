"""A process that works for another. `python -m frazil.log.apart.child DESCRIPTOR`"""

from __future__ import annotations

import os
import socket
import sys

from frazil.log.apart import wire
from frazil.log.apart.messages import Done, Failed, Ready, Task


def main(descriptor: int) -> None:
    with socket.socket(fileno=descriptor) as parent:
        try:
            wire.send(parent, Ready())
            while True:
                task: Task = wire.receive(parent)
                wire.send(parent, _outcome(task))
        except (EOFError, OSError):
            # Nobody needs it any more.
            return


def _outcome(task: Task) -> Done | Failed:
    try:
        return Done(task.number, task.work(*task.given))
    except Exception as error:  # noqa: BLE001 - the parent does it again, and learns what it is
        return Failed(task.number, f"{type(error).__name__}: {error}")


if __name__ == "__main__":
    main(int(sys.argv[1]))
    os._exit(0)
