"""Seals partitions in the background when they are due."""

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
"""It is short, because the tail fills up meanwhile."""
PARALLEL_SEALS = 4

OnFailure = Callable[[FrazilError], None]
"""It is called with the error of every failed attempt, on the thread that made it."""


class _SealState:
    """The state of sealing one partition."""

    def __init__(self, writer: PartitionWriter) -> None:
        self.writer = writer
        self.sealing = False
        self.failures = 0
        self.not_before = 0.0
        self.error: FrazilError | None = None


class Sealer:
    """One thread decides what is due, and a few others seal. A failing store is retried with growing pauses."""

    def __init__(self, world: World, on_failure: OnFailure) -> None:
        self._world = world
        self._on_failure = on_failure
        self._states: dict[PartitionWriter, _SealState] = {}
        self._condition = threading.Condition()
        self._stopping = False
        self._pool = ThreadPoolExecutor(PARALLEL_SEALS, thread_name_prefix="frazil-seal")
        self._thread = threading.Thread(target=self._run, name="frazil-sealer", daemon=True)
        self._thread.start()

    def add(self, writer: PartitionWriter) -> None:
        with self._condition:
            self._states[writer] = _SealState(writer)
            self._condition.notify()

    def remove(self, writer: PartitionWriter) -> None:
        with self._condition:
            self._states.pop(writer, None)

    def wake(self, _: PartitionWriter) -> None:
        with self._condition:
            self._condition.notify()

    def problems(self) -> dict[str, FrazilError]:
        """Return the partitions that cannot be sealed at the moment, with the reason."""
        with self._condition:
            return {f"{c.writer.topic}/{c.writer.partition}": c.error for c in self._states.values() if c.error}

    def _run(self) -> None:
        with self._condition:
            while not self._stopping:
                now = self._world.clock.monotonic()
                wait: float | None = None
                for state in self._states.values():
                    due = state.writer.seal_in()
                    if due is None or state.sealing:
                        continue
                    due = max(due, state.not_before - now)
                    if due <= 0:
                        state.sealing = True
                        self._pool.submit(self._seal, state)
                    else:
                        wait = due if wait is None else min(wait, due)
                self._condition.wait(wait)

    def _seal(self, state: _SealState) -> None:
        error: FrazilError | None = None
        try:
            state.writer.seal()
        except PartitionFenced as fenced:
            logger.info("another writer came first", extra={**_names(state), "reason": str(fenced)})
        except FrazilError as caught:
            error = caught
        except Exception as caught:
            logger.exception("sealing failed", extra=_names(state))
            error = FrazilError(f"sealing {state.writer.topic}/{state.writer.partition} failed: {caught}")
        if error is not None:
            self._on_failure(error)
        with self._condition:
            self._note(state, error)
            state.sealing = False
            self._condition.notify()

    def _note(self, state: _SealState, error: FrazilError | None) -> None:
        if error:
            delay = BACKOFF.delay(state.failures, self._world.rng)
            state.not_before = self._world.clock.monotonic() + delay
            state.failures += 1
            if str(error) != str(state.error):
                logger.warning("cannot seal", extra={**_names(state), "reason": str(error)})
        elif state.error:
            logger.info("sealing works again", extra=_names(state))
            state.failures, state.not_before = 0, 0.0
        state.error = error

    def stop(self) -> None:
        with self._condition:
            self._stopping = True
            self._condition.notify()
        self._thread.join()
        self._pool.shutdown(wait=True)


def _names(state: _SealState) -> dict[str, object]:
    return {"topic": state.writer.topic, "partition": state.writer.partition}
