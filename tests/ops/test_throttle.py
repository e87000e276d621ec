from __future__ import annotations

from frazil.ops.throttle import Throttle
from tests.log.support import ManualClock


def test_one_in_a_while_with_the_number_of_those_left_out() -> None:
    clock = ManualClock()
    throttle = Throttle(1.0, clock.monotonic)
    assert [throttle.admit() for _ in range(4)] == [0, None, None, None]
    clock.ms += 999
    assert throttle.admit() is None
    clock.ms += 1
    assert [throttle.admit() for _ in range(2)] == [4, None]
    clock.ms += 5000
    assert throttle.admit() == 1
