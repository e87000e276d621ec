"""What tests beside this share."""

from __future__ import annotations

import re
from pathlib import Path

SOURCE = Path(__file__).parents[2] / "src" / "frazil"


def failpoints() -> list[str]:
    """Returns all failpoints on the way of a batch, found in the code itself."""
    modules = [*SOURCE.glob("pipeline/**/*.py"), *SOURCE.glob("lake/**/*.py")]
    found = {name for module in modules for name in re.findall(r'failpoint\("([^"]+)"\)', module.read_text())}
    passed = [name for name in sorted(found) if name.startswith(("create", "evolve", "flush", "task", "commit"))]
    assert len(passed) > 12
    return passed
