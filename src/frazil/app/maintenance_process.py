"""The process that scheduled maintenance runs in, a child of `frazil maintain run`."""

from __future__ import annotations

from frazil.app.child_process import main
from frazil.maintain.service import MaintenanceService

if __name__ == "__main__":
    main(MaintenanceService)
