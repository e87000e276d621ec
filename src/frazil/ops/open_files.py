"""Raises the limit of open files so that all connections fit: each connection is an open file."""

from __future__ import annotations

import logging
import resource

logger = logging.getLogger(__name__)

OTHER_FILES = 4096
"""The log, tables and child processes need this many files besides connections."""


def allow_open_files(connections: int) -> None:
    """Raise the limit, as far as the system allows, so that all allowed connections leave room for other files."""
    # A quarter more: a connection beyond the bound is open for a moment before it is closed.
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
