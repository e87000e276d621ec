"""What pipelines that are gone left behind, taken over by one that lives.

What a slot knows is written into our own checkpoint first, and only then emptied there. Killed in between, it is
known twice: an attempt can be resolved twice without harm, but must not be forgotten.
"""

from __future__ import annotations

import logging

from frazil.errors import PartitionLocked, RecoveryFailed, TransactionLogDamaged
from frazil.failpoints import failpoint
from frazil.pipeline.txlog.file import slots
from frazil.pipeline.txlog.log import TransactionLog
from frazil.pipeline.txlog.slot import Slot
from frazil.pipeline.txlog.state import OpenAttempt, State

logger = logging.getLogger(__name__)


def recover(log: TransactionLog) -> list[OpenAttempt]:
    """Take over all slots whose process is gone; then return every open attempt, ours and theirs.

    A damaged slot keeps none of the others from being taken over; `RecoveryFailed` is raised for it at the end.
    """
    damage: TransactionLogDamaged | None = None
    for number in slots(log.data_dir):
        if number == log.slot:
            continue
        try:
            _take_over(log, number)
        except PartitionLocked:
            continue
        except TransactionLogDamaged as error:
            damage = damage or error
    if damage:
        raise RecoveryFailed(str(damage)) from damage
    return log.open_attempts()


def _take_over(log: TransactionLog, number: int) -> None:
    slot = Slot(log.data_dir, number, log.world.boot_id(), log.config.max_log_files)
    try:
        if slot.state.empty:
            return
        failpoint("txlog.takeover.read")
        log.absorb(slot.state)
        failpoint("txlog.takeover.absorbed")
        attempts = len(slot.state.attempts)
        slot.begin(log.world.clock.now_ms(), State())
        failpoint("txlog.takeover.emptied")
        logger.info(
            "took over what another pipeline left", extra={"slot": number, "into": log.slot, "attempts": attempts}
        )
    finally:
        slot.close()
