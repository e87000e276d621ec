"""Moves a topic on a disk that is too small for it, makes room, and goes on.

Run it with `unshare --user --map-root-user --mount python -m tests.faults.full_warehouse FOLDER PART SEED`. PART of
the data is on a tmpfs that only this process sees: the warehouse or the transaction log.
"""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from frazil.config.model import Config
from frazil.errors import FrazilError
from tests.faults.loader import Loader, check_everything
from tests.faults.network_faults import PATIENT, check_no_orphans, move_on
from tests.lake.support import local_config
from tests.pipeline.support import move_all, pipeline_context

TOPICS = ("orders",)
PARTS = {"warehouse": ("store/warehouse", "48k"), "txlog": ("txlog", "8k")}


def main(folder: Path, part: str, seed: int) -> None:
    config = local_config(folder, pipeline=PATIENT)
    where, size = PARTS[part]
    disk = config.data_dir / where
    disk.mkdir(parents=True)
    subprocess.run(["mount", "-t", "tmpfs", "-o", f"size={size}", "tmpfs", disk], check=True)
    with Loader(config, seed, TOPICS) as loader:
        loader.fill(30)
        failures = [fail_once(config, seed) for _ in range(2)]
        assert all("no room" in str(each).lower() or "No space left" in str(each) for each in failures), failures
        assert all(each.retryable for each in failures), failures
        subprocess.run(["mount", "-o", "remount,size=50m", disk], check=True)
        move_on(config, loader, seed, most_rows=10_000)
        check_everything(config, loader)
        check_no_orphans(config, TOPICS)


def fail_once(config: Config, seed: int) -> FrazilError:
    """Moves small batches until a mover fails, and returns its error."""
    with pytest.raises(FrazilError) as caught, pipeline_context(config, seed) as context:
        move_all(context, TOPICS[0], batch_rows=20)
    return caught.value


if __name__ == "__main__":
    main(Path(sys.argv[1]), sys.argv[2], int(sys.argv[3]))
