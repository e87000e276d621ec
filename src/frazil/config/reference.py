"""Writes `docs/configuration.md` from the types of the settings.

`python -m frazil.config.reference docs/configuration.md` writes it; with `--check` it only compares.
"""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Iterator
from pathlib import Path

from frazil.config.danube_storage_keys import COUNTERPARTS, FLAT_KEYS, SCHEMES, STORE_LOCATION, WITHOUT_COUNTERPART
from frazil.config.setting_tree import FILE_SUFFIX, KeyPath, Setting, SettingGroup, dotted, setting_tree, variable

_HEAD = """\
# Configuration

*This page is generated from the types of the settings (`make docs`).*

Frazil reads one YAML file: the one given with `--config`, else `frazil.yaml` in the working directory, else none:
nothing needs to be set. Relative paths start at the working directory. `frazil config check` says what is wrong with
a configuration, `frazil config show` prints the one in force and where each value came from.

Every key can also be set by an environment variable, which wins over the file: `FRAZIL__` and the key's path, joined
by two underscores, in any case (`FRAZIL__LOG__SYNC=always` is `log.sync: always`). An empty variable counts as not
set. A list is a YAML list, in a variable too (`["^orders", "returns"]`), or text with commas (`day(time), bucket(16,
id)`: those in parentheses do not separate).

In place of `<topic>` and other names in angle brackets stands a name of your choice. One that the file mentions is
matched without regard to case, with `_` for every character that is no letter or digit; any other is taken in lower
case. Names that belong to others get their dots and dashes back:

- below `pipeline.spark` and `kafka.settings`, an underscore is a dot: `FRAZIL__PIPELINE__SPARK__SPARK_MASTER` is
  `spark.master`, `FRAZIL__KAFKA__SETTINGS__SASL_USERNAME` is `sasl.username`;
- below `lake.properties` and the `properties` of tables, one underscore is a dash and two are a dot, as PyIceberg has
  it: `FRAZIL__LAKE__PROPERTIES__S3__ACCESS_KEY_ID` is `s3.access-key-id`;
- below all of these, a name that begins with a small letter keeps its case (`spark_driver_maxResultSize`), and one
  that has dots keeps its underscores.

In the file, such a name is one key (`spark.master: local[*]`), and its value may look like a number or a boolean.

A secret can be kept in a file of its own: add `_file` to its key (`_FILE` to its variable) and give the path. That is
for keys of Frazil's own; a secret below names that belong to others can be given by its variable.
`frazil config show` and messages hide secrets; below `store.options`, `lake.properties`, `pipeline.spark` and
`kafka.settings` that is whatever is called a key, a token, a password or the like, and everywhere the password in an
address.

An unknown key, an unknown `FRAZIL__…` variable or a wrong value is an error: nothing is ignored.
"""

_DANUBE = """
## `storage`, for those who come from Danube

The settings of Danube's Iceberg storage are understood as they are: `storage: {type: iceberg, iceberg_config: …}`, in
sections or flat. Each stands for a key of Frazil's own, which `frazil config show` prints with the line that it came
from. A key that is given both ways is an error, as is one that has no counterpart.

| below `storage.iceberg_config` | flat | Frazil's own | |
|---|---|---|---|
"""
_LOCATION_NOTES = {
    "type": f"`local` or one of {', '.join(f'`{name}`' for name in SCHEMES)}",
    "bucket": "by default that of the warehouse",
    "prefix": "inside the bucket",
    "path": "of a `local` store",
}


def render() -> str:
    return _HEAD + "".join(_sections(setting_tree(), ())) + _DANUBE + "".join(_danube_rows())


def _sections(group: SettingGroup, path: KeyPath) -> Iterator[str]:
    rows = {(*path, key): child for key, child in group.children.items() if isinstance(child, Setting)}
    if isinstance(group.each, Setting):
        rows[(*path, group.placeholder)] = group.each
    if rows:
        title = f"`{dotted(path)}`" if path else "Top level"
        yield f"\n## {title}\n\n{group.description}\n\n"
        yield "| key | allowed | default | environment variable | meaning |\n|---|---|---|---|---|\n"
        for row, setting in rows.items():
            yield _row(row, setting, setting.description or group.description)
    for key, child in group.children.items():
        if isinstance(child, SettingGroup):
            yield from _sections(child, (*path, key))
    if isinstance(group.each, SettingGroup):
        yield from _sections(group.each, (*path, group.placeholder))


def _danube_rows() -> Iterator[str]:
    flat = {path: f"`{name}`" for name, path in FLAT_KEYS.items()}
    rows: dict[KeyPath, tuple[str, str]] = {
        path: (f"`{dotted(counterpart.key)}`", counterpart.note) for path, counterpart in COUNTERPARTS.items()
    }
    rows["catalog", "properties"] = "`lake.properties`", "each by its name"
    rows |= {("object_store", name): ("`store.url`", _LOCATION_NOTES[name]) for name in STORE_LOCATION}
    rows |= {path: ("none", instead) for path, instead in WITHOUT_COUNTERPART.items()}
    for path, (own, note) in rows.items():
        yield f"| `{dotted(path)}` | {flat.get(path, '')} | {own} | {note} |\n"


def _row(path: KeyPath, setting: Setting, meaning: str) -> str:
    names = f"`{variable(path)}`"
    if setting.secret:
        names += f", `{variable((*path[:-1], path[-1] + FILE_SUFFIX))}`"
    cells = (f"`{dotted(path)}`", _allowed(setting), _default(setting), names, meaning)
    return "| " + " | ".join(cell.replace("|", "\\|") for cell in cells) + " |\n"


def _allowed(setting: Setting) -> str:
    if setting.choices:
        return ", ".join(f"`{choice}`" for choice in setting.choices)
    text, found, pattern = setting.kind.partition(" matches ")
    return f"{text} matches `{pattern}`" if found else setting.kind


def _default(setting: Setting) -> str:
    if setting.required:
        return "must be given"
    if setting.default is None:
        return "empty" if setting.listed else "not set"
    return f"`{setting.default}`" if isinstance(setting.default, str) else f"`{json.dumps(setting.default)}`"


def main(arguments: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="python -m frazil.config.reference", description=__doc__)
    parser.add_argument("path", type=Path, help="the page to write")
    parser.add_argument("--check", action="store_true", help="only compare; fail when the page is stale")
    options = parser.parse_args(arguments)
    page: Path = options.path
    text = render()
    if not options.check:
        page.write_text(text, "utf-8")
        return 0
    if page.exists() and page.read_text("utf-8") == text:
        return 0
    sys.stderr.write(f"{page} does not match the types of the settings; run `make docs` and commit the result.\n")
    return 1


if __name__ == "__main__":
    sys.exit(main())
