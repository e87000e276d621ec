from __future__ import annotations

import threading

from hypothesis import given
from hypothesis import strategies as st

from frazil.ops.health import Health, HealthRegistry, Status
from frazil.version import __version__

STATUSES: list[Status] = ["healthy", "degraded", "unhealthy"]


@given(st.dictionaries(st.text(min_size=1), st.sampled_from(STATUSES)))
def test_the_worst_component_decides(components: dict[str, Status]) -> None:
    registry = HealthRegistry()
    for name, status in components.items():
        registry.set(name, status, f"{status} for a reason")
    worst = max(components.values(), key=STATUSES.index, default="healthy")
    assert registry.report().status == worst


def test_the_report_as_data() -> None:
    now = 100.0
    registry = HealthRegistry(clock=lambda: now)
    registry.register("log", lambda: Health("degraded", "the store is slow"))
    registry.set("doors", "healthy")
    now = 102.5
    report = registry.report()
    assert report.as_data() == {
        "status": "degraded",
        "components": {
            "log": {"status": "degraded", "reason": "the store is slow"},
            "doors": {"status": "healthy", "reason": ""},
        },
        "version": __version__,
        "uptime_seconds": 2.5,
    }
    assert report.reason == "log is degraded: the store is slow"


def test_a_part_may_tell_of_several_components_and_of_many_things_in_one() -> None:
    registry = HealthRegistry()
    tables = Health.of({"shop.b": OSError("gone"), "shop.a": "stopped"})
    registry.register("pipeline", lambda: {"iceberg": tables, "catalog": Health.of({})})
    assert registry.report().as_data()["components"] == {
        "iceberg": {
            "status": "degraded",
            "reason": "shop.a: stopped; shop.b: gone",
            "details": {"shop.a": "stopped", "shop.b": "gone"},
        },
        "catalog": {"status": "healthy", "reason": ""},
    }


def test_an_optional_component_does_not_make_the_process_unready() -> None:
    registry = HealthRegistry()
    registry.mark_ready()
    registry.register("pipeline", lambda: Health("unhealthy", "no catalog"), optional=True)
    registry.set("log", "healthy")
    assert registry.report().status == "unhealthy"
    assert registry.not_ready() is None
    registry.set("log", "unhealthy", "no disk")
    assert registry.not_ready() == "log is unhealthy: no disk"


def test_a_check_that_fails_is_unhealthy() -> None:
    def check() -> Health:
        raise OSError("no such disk")

    registry = HealthRegistry()
    registry.register("log", check)
    assert registry.report().reason == "log is unhealthy: its check failed: OSError: no such disk"
    registry.remove("log")
    assert registry.report().status == "healthy"


def test_ready_only_between_start_and_drain_and_while_not_unhealthy() -> None:
    registry = HealthRegistry()
    assert registry.not_ready() == "starting"
    registry.mark_ready()
    assert registry.not_ready() is None
    registry.set("log", "degraded", "slow")
    assert registry.not_ready() is None
    registry.set("log", "unhealthy", "broken")
    assert registry.not_ready() == "log is unhealthy: broken"
    registry.set("log", "healthy")
    registry.mark_draining()
    assert registry.not_ready() == "draining"


def test_threads_may_report_while_others_ask() -> None:
    registry = HealthRegistry()

    def report(thread: int) -> None:
        for turn in range(200):
            registry.set(f"part {thread} {turn % 7}", "degraded", "busy")
            registry.remove(f"part {thread} {(turn + 3) % 7}")
            assert registry.report().status in STATUSES

    threads = [threading.Thread(target=report, args=(number,)) for number in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert registry.report().status == "degraded"
