"""Runs `frazil serve`, and writes down how late its event loop is: `python -m bench.lateness_server SETTINGS FILE`.

Each line of the file has two numbers: the time by the monotonic clock, and by how many seconds a timer of that moment
was late.
"""

from __future__ import annotations

import asyncio
import sys
import time
from pathlib import Path
from typing import TextIO

from frazil.app.roles import everything, serve
from frazil.config.load import load_config
from frazil.footprint import own_process
from frazil.ops.health import HealthReport

TICK_SECONDS = 0.005


async def tick(file: TextIO) -> None:
    while True:
        due = time.monotonic() + TICK_SECONDS
        await asyncio.sleep(TICK_SECONDS)
        print(f"{due:.6f} {time.monotonic() - due:.6f}", file=file, flush=True)


def main(settings: Path, path: Path) -> None:
    own_process()
    ticking: set[asyncio.Task[None]] = set()
    with path.open("w") as file:

        def announce(address: str, report: HealthReport) -> None:
            ticking.add(asyncio.get_running_loop().create_task(tick(file)))
            print(address, flush=True)

        asyncio.run(serve(load_config(settings).config, everything, announce))


if __name__ == "__main__":
    main(*map(Path, sys.argv[1:]))
