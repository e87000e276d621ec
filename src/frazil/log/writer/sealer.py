"""Seals partitions when they are due, in the background."""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor

from frazil.backoff import Backoff
from frazil.clock import World
from frazil.errors import FrazilError, PartitionFenced
from frazil.log.writer.writer import PartitionWriter

logger = logging.getLogger(__name__)

BACKOFF = Backoff(base_seconds=0.1, longest_seconds=5.0)
"""Short, because the tail fills up meanwhile."""
PARALLEL_SEALS = 4

OnFailure = Callable[[FrazilError], None]
"""Told of every attempt that failed, on the thread that made it."""


class _Charge:
    """One partition that is looked after."""

    def __init__(self, writer: PartitionWriter) -> None:
        self.writer = writer
        self.sealing = False
        self.failures = 0
        self.not_before = 0.0
        self.error: FrazilError | None = None


class Sealer:
    """One thread decides, a few seal; a store that fails is tried again, ever slower, until it works."""

    def __init__(self, world: World, on_failure: OnFailure) -> None:
        self._world = world
        self._on_failure = on_failure
        self._charges: dict[PartitionWriter, _Charge] = {}
        self._condition = threading.Condition()
        self._stopping = False
        self._pool = ThreadPoolExecutor(PARALLEL_SEALS, thread_name_prefix="frazil-seal")
        self._thread = threading.Thread(target=self._run, name="frazil-sealer", daemon=True)
        self._thread.start()

    def add(self, writer: PartitionWriter) -> None:
        with self._condition:
            self._charges[writer] = _Charge(writer)
            self._condition.notify()

    def remove(self, writer: PartitionWriter) -> None:
        with self._condition:
            self._charges.pop(writer, None)

    def wake(self, _: PartitionWriter) -> None:
        with self._condition:
            self._condition.notify()

    def problems(self) -> dict[str, FrazilError]:
        """Partitions that cannot be sealed at the moment, and why."""
        with self._condition:
            return {f"{c.writer.topic}/{c.writer.partition}": c.error for c in self._charges.values() if c.error}

    def _run(self) -> None:
        with self._condition:
            while not self._stopping:
                now = self._world.clock.monotonic()
                wait: float | None = None
                for charge in self._charges.values():
                    due = charge.writer.seal_in()
                    if due is None or charge.sealing:
                        continue
                    due = max(due, charge.not_before - now)
                    if due <= 0:
                        charge.sealing = True
                        self._pool.submit(self._seal, charge)
                    else:
                        wait = due if wait is None else min(wait, due)
                self._condition.wait(wait)

    def _seal(self, charge: _Charge) -> None:
        error: FrazilError | None = None
        try:
            charge.writer.seal()
        except PartitionFenced as fenced:
            logger.info("another writer came first", extra={**_names(charge), "reason": str(fenced)})
        except FrazilError as caught:
            error = caught
        except Exception as caught:
            logger.exception("sealing failed", extra=_names(charge))
            error = FrazilError(f"sealing {charge.writer.topic}/{charge.writer.partition} failed: {caught}")
        if error is not None:
            self._on_failure(error)
        with self._condition:
            self._note(charge, error)
            charge.sealing = False
            self._condition.notify()

    def _note(self, charge: _Charge, error: FrazilError | None) -> None:
        if error:
            delay = BACKOFF.delay(charge.failures, self._world.rng)
            charge.not_before = self._world.clock.monotonic() + delay
            charge.failures += 1
            if str(error) != str(charge.error):
                logger.warning("cannot seal", extra={**_names(charge), "reason": str(error)})
        elif charge.error:
            logger.info("sealing works again", extra=_names(charge))
            charge.failures, charge.not_before = 0, 0.0
        charge.error = error

    def stop(self) -> None:
        with self._condition:
            self._stopping = True
            self._condition.notify()
        self._thread.join()
        self._pool.shutdown(wait=True)


def _names(charge: _Charge) -> dict[str, object]:
    return {"topic": charge.writer.topic, "partition": charge.writer.partition}
