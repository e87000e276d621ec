"""Reads secrets that are kept in files of their own, such as `secret_access_key_file: /run/secrets/key`."""

from __future__ import annotations

from pathlib import Path

from frazil.config.setting_tree import KeyPath, SettingGroup, dotted, setting_tree
from frazil.config.yaml_file import Document, Values, described


def resolve_secret_files(document: Document) -> None:
    """Replace every `…_file` key of the document by the secret that its file holds."""
    _resolve(setting_tree(), document.values, (), document)


def read_secret(path: KeyPath, file: str, origin: str, problems: list[str]) -> str | None:
    """Returns the content of a secret's file, or adds a problem and returns None if it cannot be used."""
    try:
        secret = Path(file).read_text("utf-8").strip()
    except (OSError, ValueError) as error:
        reason = (error.strerror if isinstance(error, OSError) else None) or str(error)
        problems.append(f"{dotted(path)}: cannot read its file {file!r}: {reason} ({origin})")
        return None
    if not secret:
        problems.append(f"{dotted(path)}: its file {file!r} is empty ({origin})")
        return None
    return secret


def _resolve(group: SettingGroup, values: Values, path: KeyPath, document: Document) -> None:
    for key in list(values):
        below = (*path, key)
        value = values[key]
        child = group.child(key)
        if isinstance(child, SettingGroup) and isinstance(value, dict):
            _resolve(child, value, below, document)
            continue
        secret = group.secret_behind(key)
        if secret is None:
            continue
        origin = document.origins[below]
        del values[key]
        if not isinstance(value, str):
            if value is not None:
                document.problems.append(f"{dotted(below)}: {described(value)} is not a path ({origin})")
        elif values.get(secret) is not None:
            document.problems.append(f"{dotted(below)}: {secret} is given too; keep one of them ({origin})")
        else:
            values[secret] = read_secret((*path, secret), value, origin, document.problems)
            document.origins[*path, secret] = origin
