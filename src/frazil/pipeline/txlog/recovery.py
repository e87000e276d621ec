"""Takes over the slots of pipelines whose process has ended.

The state of a slot is written into our own checkpoint first, and only then is the slot emptied. After a kill in
between both have it: an attempt can be resolved twice without harm, but must not be forgotten.
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
    """Take over all slots whose process has ended. Return every open attempt, ours and theirs.

    `RecoveryFailed` is raised for a damaged slot at the end, after the others were taken over.
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
