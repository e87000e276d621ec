"""Makes labels of lines that are logfmt: `level=info msg="all is well"`."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator

from frazil.query.logql.frame import Frame
from frazil.query.logql.json_paths import logfmt_key
from frazil.query.logql.parse.log_tree import LogfmtParser
from frazil.query.logql.stages.clean_lines import PLAIN_LOGFMT, extract_clean
from frazil.query.logql.stages.findings import Findings, Wanted, apply, label_name

LOGFMT_ERROR = "LogfmtParserErr"

_PAIR = re.compile(
    r"""
    [\x00-\x20]*
    (?P<key>[^\x00-\x20="\ufffd]+)
    (?: ="(?P<quoted>(?:[^"\\]|\\.)*)"
      | =(?P<plain>[^\x00-\x20="]*)(?=[\x00-\x20]|\Z)
      | (?=[\x00-\x20]|\Z)
    )
    """,
    re.DOTALL | re.VERBOSE,
)
_QUOTED = re.compile(r'"(?:[^"\\]|\\.)*"', re.DOTALL)
_BLANKS = re.compile(r"[\x00-\x20]*")
_WORD = re.compile(r"[^\x00-\x20]*")
_KEY = re.compile(r'[^\x00-\x20="]*')


def parse_logfmt(stage: LogfmtParser, frame: Frame, wanted: Wanted) -> None:
    if not stage.extractions:
        done = None if stage.keep_empty else extract_clean(PLAIN_LOGFMT, frame, wanted)
        apply(frame, wanted, lambda lines, findings: _find_all(lines, findings, stage, wanted), done=done)
        return
    labels = [(each.label, label_name(logfmt_key(each.source))) for each in stage.extractions if each.label in wanted]
    if labels or stage.strict:
        apply(
            frame,
            wanted,
            lambda lines, findings: _find_listed(lines, findings, stage, labels),
            filled=False,
            replaces=True,
        )


class _Mistake(Exception):
    def __init__(self, line: str, at: int, reason: str) -> None:
        super().__init__(f"logfmt syntax error at pos {len(line[:at].encode()) + 1} : {reason}")


def _find_all(lines: list[str], findings: Findings, stage: LogfmtParser, wanted: Wanted) -> None:
    keep_empty, everything = stage.keep_empty, wanted.all
    for number, line in enumerate(lines):
        missing = set() if everything else set(wanted.names)
        try:
            for key, value in _pairs(line, stage.strict):
                if not value and not keep_empty:
                    continue
                name = label_name(key)
                if name and name in wanted:
                    findings.add(number, name, value)
                    missing.discard(name)
                    if not missing and not everything:
                        break
        except _Mistake as mistake:
            findings.fail(number, LOGFMT_ERROR, str(mistake))


def _find_listed(lines: list[str], findings: Findings, stage: LogfmtParser, labels: list[tuple[str, str]]) -> None:
    findings.missing_replaces = True
    sources = {source for _, source in labels}
    for number, line in enumerate(lines):
        values: dict[str, str] = {}
        try:
            for key, value in _pairs(line, stage.strict):
                if (name := label_name(key)) in sources:
                    values[name] = value
        except _Mistake as mistake:
            findings.fail(number, LOGFMT_ERROR, str(mistake))
        for label, source in labels:
            if source in values:
                findings.put(number, label, values[source])
            else:
                findings.miss(number, label)


def _pairs(line: str, strict: bool) -> Iterator[tuple[str, str]]:
    """Yields keys and values, which may be empty. What is no pair is skipped, or raises an error if `strict`."""
    at, end = 0, len(line)
    while at < end:
        pair = _PAIR.match(line, at)
        if pair is None:
            at = _after_mistake(line, at, strict)
            continue
        at = pair.end()
        value = pair["plain"] or ""
        if (quoted := pair["quoted"]) is not None:
            value = quoted
            if "\\" in quoted:
                try:
                    value = str(json.loads(f'"{quoted}"', strict=False))
                    value.encode()
                except ValueError:
                    if strict:
                        raise _Mistake(line, pair.start("quoted") - 1, "invalid quoted value") from None
                    continue
        yield pair["key"], value.replace("\ufffd", " ") if "\ufffd" in value else value


def _after_mistake(line: str, at: int, strict: bool) -> int:
    """Returns where to go on: behind the next blank, or at the end if a quoted text has none."""
    start = at = _end(_BLANKS, line, at)
    if at == len(line):
        return at
    at = _end(_KEY, line, at)
    quoted = _QUOTED.match(line, at + 1) if line.startswith('="', at) else None
    if at == start:
        mistake = _Mistake(line, at, f"unexpected '{line[at]}'")
    elif "\ufffd" in line[start:at]:
        mistake = _Mistake(line, at, "invalid key")
        at = quoted.end() if quoted else at
    elif line.startswith('="', at) and not quoted:
        mistake, at = _Mistake(line, len(line), "unterminated quoted value"), len(line)
    else:
        at = _end(_KEY, line, at + 1) if line.startswith("=", at) else at
        mistake = _Mistake(line, at, f"unexpected '{line[at : at + 1]}'")
    if strict:
        raise mistake
    return _end(_WORD, line, at)


def _end(pattern: re.Pattern[str], line: str, at: int) -> int:
    found = pattern.match(line, at)
    return found.end() if found else at
