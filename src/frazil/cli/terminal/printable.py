"""Shows texts of strangers without characters that would confuse a terminal."""

from __future__ import annotations

import json


def printable(text: str) -> str:
    if text.isprintable():
        return text
    return "".join(letter if letter.isprintable() else json.dumps(letter)[1:-1] for letter in text)
