"""How many files this process may have open: each connection is one."""

from __future__ import annotations

import logging
import resource

logger = logging.getLogger(__name__)

OTHER_FILES = 4096
"""Files of the log, of tables and of child processes."""


def allow_open_files(connections: int) -> None:
    """Raise the limit so that all connections there may be leave room for everything else, as far as it can be."""
    # Those beyond the bound are open for a moment, until they are closed.
    wanted = connections + connections // 4 + OTHER_FILES
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if soft == resource.RLIM_INFINITY or soft >= wanted:
        return
    possible = wanted if hard == resource.RLIM_INFINITY else min(wanted, hard)
    resource.setrlimit(resource.RLIMIT_NOFILE, (max(soft, possible), hard))
    if possible < wanted:
        logger.warning(
            "the limit of open files is lower than all connections together need: raise it (ulimit -n), or lower "
            "max_connections of the ports",
            extra={"limit": possible, "needed": wanted},
        )
