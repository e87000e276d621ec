"""Tests movers with a real catalog behind a faulty network: each record is in one table, once."""

from __future__ import annotations

import random
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest

from frazil.config.model import Config
from frazil.errors import FrazilError
from frazil.ops.breaker import CircuitState
from frazil.ops.health import HEALTHY
from tests.faults.loader import Loader, check_everything, moved
from tests.faults.network_faults import FAULTS, PATIENT, TIMES, check_leftovers, faults, move_on
from tests.lake.support import nessie_config
from tests.pipeline.support import move_all, pipeline_context
from tests.servers.proxy import Proxy
from tests.servers.shared import NessieServer, S3Server

TOPICS = ("orders",)
ROUNDS = 5
REQUESTS = [("POST", "*/tables/*"), ("GET", "*/tables/*"), ("POST", "*"), ("*", "*")]

Lakes = Callable[..., tuple[Config, Config]]


@pytest.fixture
def lakes(
    tmp_path: Path, nessie: NessieServer, nessie_proxy: Proxy, s3_server: S3Server, namespace: str
) -> Callable[..., tuple[Config, Config]]:
    """Returns a function that makes the settings of one lake, through the proxy and past it."""

    def make(**pipeline: Any) -> tuple[Config, Config]:
        settings: dict[str, Any] = {"pipeline": {**PATIENT, **pipeline}, "timeout_seconds": 2.0}
        through = nessie_config(tmp_path, nessie, s3_server, namespace, endpoint=nessie_proxy.endpoint, **settings)
        return through, nessie_config(tmp_path, nessie, s3_server, namespace, **settings)

    return make


@pytest.mark.parametrize("kind", ["500 after", "late"])
def test_a_commit_that_fails(lakes: Lakes, nessie_proxy: Proxy, seed: int, kind: str) -> None:
    check_fault(lakes, nessie_proxy, seed, kind, rounds=1)


@pytest.mark.soak
@pytest.mark.timeout(900)
@pytest.mark.parametrize("kind", sorted(FAULTS))
def test_commits_that_fail(lakes: Lakes, nessie_proxy: Proxy, seed: int, kind: str) -> None:
    check_fault(lakes, nessie_proxy, seed, kind, rounds=ROUNDS)


def check_fault(lakes: Lakes, proxy: Proxy, seed: int, kind: str, rounds: int) -> None:
    chance = random.Random(seed)
    through, past = lakes()
    late = []
    with Loader(past, seed, TOPICS) as loader:
        for number in range(rounds):
            loader.fill(6)
            if number == rounds // 2:
                loader.widen(TOPICS[0])
            with faults(proxy, chance, kind, "*/tables/*", "POST") as kept:
                move_on(through, loader, seed)
            late += kept
            loader.fill(2)
            if chance.random() < 0.5:
                # By now somebody else has made the change, or nobody has. The request must change nothing in either
                # case.
                deliver(late)
        move_on(past, loader, seed)
        deliver(late)
        check_everything(past, loader)
        check_leftovers(past, TOPICS, seed)
        check_everything(past, loader)


def deliver(late: list[Any]) -> None:
    while late:
        late.pop(0).forward()


@pytest.mark.soak
@pytest.mark.timeout(900)
def test_a_storm(lakes: Lakes, nessie_proxy: Proxy, seed: int) -> None:
    """All faults happen at once, on any request, with two movers that do not know of each other."""
    chance = random.Random(seed)
    through, past = lakes()
    late: list[Any] = []
    gave_up = 0
    with Loader(past, seed, TOPICS) as loader:
        for _ in range(ROUNDS):
            loader.fill(8)
            for _ in range(4):
                method, pattern = chance.choice(REQUESTS)
                # Only an update of a table can conflict.
                conflicts = (method, pattern) == REQUESTS[0]
                kinds = [kind for kind in sorted(FAULTS) if conflicts or not kind.startswith("409")]
                held = FAULTS[chance.choice(kinds)](nessie_proxy.on(method, pattern), chance.choice(TIMES))
                late += [held] if isinstance(held, list) else []
            with ThreadPoolExecutor(2) as pool:
                movers = [pool.submit(move_on, through, loader, seed + number) for number in range(2)]
            gave_up += sum(each.result() for each in movers)
            nessie_proxy.clear()
            for kept in late:
                deliver(kept)
        move_on(past, loader, seed)
        check_everything(past, loader)
        check_leftovers(past, TOPICS, seed)
        print(f"seed {seed}: {loader.rows} rows, movers gave up {gave_up} times")  # noqa: T201


def test_a_catalog_that_goes_and_comes_back(lakes: Lakes, nessie_proxy: Proxy, seed: int) -> None:
    through, past = lakes(breaker={"failure_threshold": 2, "reset_timeout_seconds": 0.1, "success_threshold": 1})
    with Loader(past, seed, TOPICS) as loader, pipeline_context(through, seed) as context:
        loader.fill(4)
        move_all(context, TOPICS[0])
        loader.fill(4)
        nessie_proxy.down()
        with pytest.raises(FrazilError) as caught:
            move_all(context, TOPICS[0])
        assert caught.value.retryable
        assert context.catalog_breaker.state is not CircuitState.CLOSED
        health = context.catalog_breaker.health()
        assert health.status == "degraded"
        assert "it kept failing" in health.reason
        assert "Check that the catalog runs" in health.reason
        assert context.store_breaker.health() == HEALTHY
        nessie_proxy.up()
        until = time.monotonic() + 30
        while not moved(past, loader) and time.monotonic() < until:
            move_all(context, TOPICS[0])
        assert context.catalog_breaker.health() == HEALTHY
        assert context.catalog_breaker.opened >= 1
        check_everything(past, loader)
