"""The commands that people are told to decide with."""

from __future__ import annotations


def resume_command(topic: str, decision: str, role: str, table: str) -> str:
    """The decision about one table of a topic; that about its base table needs no name."""
    about = "" if role == "base" else f" --table {table}"
    return f"`frazil topics resume {topic} --{decision}{about}`"
