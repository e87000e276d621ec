"""Formats the `frazil topics resume` commands in error messages, with which people decide."""

from __future__ import annotations


def resume_command(topic: str, decision: str, role: str, table: str) -> str:
    """Returns the command for a decision about one table of a topic. The base table need not be named."""
    about = "" if role == "base" else f" --table {table}"
    return f"`frazil topics resume {topic} --{decision}{about}`"
