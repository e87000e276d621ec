from __future__ import annotations

import threading
from collections.abc import Callable

import pytest
from hypothesis import given
from hypothesis import strategies as st
from prometheus_client import CollectorRegistry

from frazil.config.sections.retry import BreakerConfig
from frazil.errors import (
    CasConflict,
    CatalogConnection,
    ConfigError,
    DependencyUnavailable,
    FrazilError,
    ObjectNotFound,
    ShutdownError,
    StorageUnavailable,
    TableNotFound,
)
from frazil.ops.breaker import BreakerCollector, CircuitBreaker, CircuitState
from frazil.ops.metrics import render
from tests.log.support import ManualClock

FAILURES, RESET, SUCCESSES = 3, 30.0, 2
CONFIG = BreakerConfig(failure_threshold=FAILURES, reset_timeout_seconds=RESET, success_threshold=SUCCESSES)


def make() -> tuple[CircuitBreaker, ManualClock]:
    clock = ManualClock()
    return CircuitBreaker("catalog", CONFIG, clock), clock


def work() -> str:
    return "done"


def failing(error: BaseException) -> Callable[[], str]:
    def fail() -> str:
        raise error

    return fail


def now(breaker: CircuitBreaker) -> CircuitState:
    return breaker.state


def fail(breaker: CircuitBreaker, times: int = 1) -> None:
    for _ in range(times):
        with pytest.raises(CatalogConnection):
            breaker.call(failing(CatalogConnection("connection refused")))


def test_closed_open_half_open_closed() -> None:
    breaker, clock = make()
    fail(breaker, FAILURES - 1)
    assert breaker.call(work) == "done", "failures count in a row"
    fail(breaker, FAILURES)
    assert now(breaker) is CircuitState.OPEN
    with pytest.raises(DependencyUnavailable) as caught:
        breaker.call(work)
    assert str(caught.value) == (
        "catalog is not asked: it kept failing, and it is tried again in 30.0 s. Last failure: connection refused"
    )
    assert caught.value.retryable
    assert caught.value.exit_code == CatalogConnection.exit_code
    assert caught.value.again().args == caught.value.args
    clock.advance(RESET)
    assert breaker.call(work) == "done"
    assert now(breaker) is CircuitState.HALF_OPEN
    assert breaker.call(work) == "done"
    assert now(breaker) is CircuitState.CLOSED
    assert (breaker.opened, breaker.failures, breaker.refused) == (1, 2 * FAILURES - 1, 1)


def test_one_failure_while_half_open_opens_again_for_the_whole_time() -> None:
    breaker, clock = make()
    fail(breaker, FAILURES)
    clock.advance(RESET)
    breaker.call(work)
    fail(breaker)
    assert now(breaker) is CircuitState.OPEN
    clock.advance(RESET - 1)
    with pytest.raises(DependencyUnavailable):
        breaker.call(work)
    clock.advance(1)
    breaker.call(work)


@pytest.mark.parametrize(
    "answer", [CasConflict("changed"), TableNotFound("gone"), ObjectNotFound("gone"), ConfigError("wrong")]
)
def test_a_definite_answer_shows_that_it_works(answer: FrazilError) -> None:
    breaker, clock = make()
    fail(breaker, FAILURES)
    clock.advance(RESET)
    for _ in range(SUCCESSES):
        with pytest.raises(type(answer)):
            breaker.call(failing(answer))
    assert now(breaker) is CircuitState.CLOSED


@pytest.mark.parametrize(
    "error", [ValueError("a bug"), KeyboardInterrupt(), DependencyUnavailable("store"), ShutdownError("stopping")]
)
def test_what_says_nothing_of_the_dependency_changes_nothing(error: BaseException) -> None:
    breaker, clock = make()
    fail(breaker, FAILURES - 1)
    with pytest.raises(type(error)):
        breaker.call(failing(error))
    fail(breaker)
    assert now(breaker) is CircuitState.OPEN
    clock.advance(RESET)
    with pytest.raises(type(error)):
        breaker.call(failing(error))
    assert now(breaker) is CircuitState.HALF_OPEN
    assert breaker.call(work) == "done", "the place of the one that tries is free again"


def test_one_call_at_a_time_while_half_open() -> None:
    breaker, clock = make()
    fail(breaker, FAILURES)
    clock.advance(RESET)
    trying, go_on = threading.Event(), threading.Event()

    def slow() -> None:
        trying.set()
        go_on.wait(60)

    thread = threading.Thread(target=breaker.call, args=(slow,))
    thread.start()
    trying.wait(60)
    with pytest.raises(DependencyUnavailable, match="one call is trying it now"):
        breaker.call(work)
    assert "one call is trying it now" in breaker.health().reason
    go_on.set()
    thread.join()
    assert breaker.call(work) == "done"
    assert now(breaker) is CircuitState.CLOSED


def test_a_call_that_began_before_the_circuit_opened_decides_nothing() -> None:
    breaker, clock = make()
    began, go_on = threading.Event(), threading.Event()

    def late_failure() -> None:
        began.set()
        go_on.wait(60)
        raise StorageUnavailable("timeout")

    def call() -> None:
        with pytest.raises(StorageUnavailable):
            breaker.call(late_failure)

    thread = threading.Thread(target=call)
    thread.start()
    began.wait(60)
    fail(breaker, FAILURES)
    clock.advance(RESET)
    breaker.call(work)
    go_on.set()
    thread.join()
    assert now(breaker) is CircuitState.HALF_OPEN
    assert breaker.failures == FAILURES + 1


def test_a_call_within_a_call_is_one_call() -> None:
    breaker, clock = make()
    fail(breaker, FAILURES)
    clock.advance(RESET)
    with breaker, breaker:
        pass
    assert now(breaker) is CircuitState.HALF_OPEN
    with pytest.raises(CatalogConnection), breaker:
        breaker.call(failing(CatalogConnection("away")))
    assert breaker.failures == FAILURES + 1


def test_health_tells_why() -> None:
    breaker, clock = make()
    assert breaker.health().status == "healthy"
    fail(breaker, FAILURES)
    assert breaker.health().status == "degraded"
    assert "tried again in 30.0 s. Last failure: connection refused" in breaker.health().reason
    clock.advance(RESET + 5)
    assert "the next call tries it again" in breaker.health().reason


def test_metrics() -> None:
    breaker, _ = make()
    other = CircuitBreaker("store", CONFIG)
    registry = CollectorRegistry()
    registry.register(BreakerCollector([breaker, other]))
    fail(breaker, FAILURES)
    with pytest.raises(DependencyUnavailable):
        breaker.call(work)
    shown = render(registry)[0].decode().splitlines()
    for line in (
        'frazil_breaker_state{dependency="catalog"} 2.0',
        'frazil_breaker_state{dependency="store"} 0.0',
        'frazil_breaker_opened_total{dependency="catalog"} 1.0',
        'frazil_breaker_failures_total{dependency="catalog"} 3.0',
        'frazil_breaker_refused_total{dependency="catalog"} 1.0',
    ):
        assert line in shown


@given(st.lists(st.sampled_from(["ok", "fail", "answer", "wait a little", "wait long"]), max_size=60))
def test_it_does_what_its_description_says(steps: list[str]) -> None:
    """The breaker is compared with its rules written down a second time, as plainly as possible."""
    breaker, clock = make()
    state, in_a_row, opened_at = CircuitState.CLOSED, 0, 0.0
    for step in steps:
        if step.startswith("wait"):
            clock.advance(RESET if step == "wait long" else 1)
            continue
        if state is CircuitState.OPEN and clock.monotonic() - opened_at >= RESET:
            state, in_a_row = CircuitState.HALF_OPEN, 0
        if state is CircuitState.OPEN:
            with pytest.raises(DependencyUnavailable):
                breaker.call(work)
        elif step == "fail":
            fail(breaker)
            in_a_row = in_a_row + 1
            if state is CircuitState.HALF_OPEN or in_a_row == FAILURES:
                state, opened_at = CircuitState.OPEN, clock.monotonic()
        else:
            if step == "ok":
                breaker.call(work)
            else:
                with pytest.raises(CasConflict):
                    breaker.call(failing(CasConflict("changed")))
            in_a_row = in_a_row + 1 if state is CircuitState.HALF_OPEN else 0
            if in_a_row == SUCCESSES:
                state, in_a_row = CircuitState.CLOSED, 0
        assert now(breaker) is state
        assert (breaker.health().status == "healthy") == (state is CircuitState.CLOSED)
