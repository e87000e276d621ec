"""A process that commits to the table of a local lake.

Run it with `python -m tests.lake.commit.committer FOLDER COUNT`.
"""

from __future__ import annotations

import sys
from pathlib import Path

from pyiceberg.table import Transaction
from pyiceberg.table.refs import MAIN_BRANCH
from pyiceberg.table.update import AssertRefSnapshotId, SetPropertiesUpdate

from frazil.errors import CasConflict
from frazil.lake.catalog.lake import Lake, calling
from frazil.lake.pyiceberg_internals import write_empty_snapshot
from tests.lake.support import local_config, make_base_table


def main(folder: Path, count: int) -> None:
    lake = Lake(local_config(folder))
    table = make_base_table(lake)
    done = 0
    while done < count:
        head = table.current_snapshot()
        assert head
        counted = int(table.properties.get("count", "0")) + 1
        try:
            with calling("Committing"):
                lake.catalog.commit_table(
                    table,
                    (AssertRefSnapshotId(ref=MAIN_BRANCH, snapshot_id=head.snapshot_id),),
                    (
                        *write_empty_snapshot(Transaction(table), {}),
                        SetPropertiesUpdate(updates={"count": str(counted)}),
                    ),
                )
            done += 1
        except CasConflict:
            pass
        table = lake.load(table.name())


if __name__ == "__main__":
    main(Path(sys.argv[1]), int(sys.argv[2]))
