"""Reads a test script as commands: load, clear, evaluate."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass, field

from frazil.query.promql.parse.literals import parse_duration_ms, unquote
from tests.conformance.promql_series import Point, read_series, split_line, start_offsets

LOAD = re.compile(r"load(?:_(with_nhcb))?\s+(\S+)")
INSTANT = re.compile(r"eval(?:_(fail|warn|ordered|info))?\s+instant\s+(?:at\s+(\S+))?\s*(.+)")
RANGE = re.compile(r"eval(?:_(fail|warn|info))?\s+range\s+from\s+(\S+)\s+to\s+(\S+)\s+step\s+(\S+)\s+(.+)")
EXPECT_RANGE = re.compile(r"expect\s+range\s+vector\s+from\s+(\S+)\s+to\s+(\S+)\s+step\s+(\S+)")
EXPECT = re.compile(r"expect\s+(ordered|fail|warn|info|no_warn|no_info)(?:\s+(msg|regex):(.*))?")
SCALAR = re.compile(r"[+-]?(?:\d[\d_]*\.?\d*(?:[eE][+-]?\d+)?|\.\d+|0x[0-9a-fA-F]+|inf|nan)", re.I)


@dataclass(frozen=True)
class Clear:
    pass


@dataclass
class Load:
    interval: int
    with_custom_buckets: bool
    series: list[tuple[dict[str, str], list[Point], list[int | None] | None]] = field(default_factory=list)


@dataclass(frozen=True)
class Text:
    """Is a text that a message must be, or a pattern that it must match."""

    kind: str
    text: str

    def accepts(self, message: str) -> bool:
        if self.kind == "regex":
            return re.search(self.text, message) is not None
        return not self.kind or self.text == message


@dataclass
class Evaluate:
    line: int
    query: str
    at: int
    range: tuple[int, int, int] | None
    fails: bool = False
    ordered: bool = False
    must_warn: bool = False
    must_inform: bool = False
    expects: dict[str, list[Text]] = field(default_factory=dict)
    series: list[tuple[dict[str, str], list[Point]]] = field(default_factory=list)
    scalar: float | None = None
    text: str | None = None
    expects_range_vector: bool = False


Command = Clear | Load | Evaluate


def commands(text: str) -> Iterator[Command]:
    """Returns the commands of a script. An empty line (or one with a comment only) ends a command."""
    lines = [line.strip() for line in text.split("\n")]
    lines = ["" if line.startswith("#") else line for line in lines]
    at = 0
    while at < len(lines):
        line, number = lines[at], at + 1
        at += 1
        if not line:
            continue
        block = []
        if line.lower() != "clear":
            while at < len(lines) and lines[at]:
                block.append(lines[at])
                at += 1
        word = line.split()[0].lower()
        if word == "clear":
            yield Clear()
        elif word.startswith("load"):
            yield load(line, block)
        elif word.startswith("eval"):
            yield evaluation(line, block, number)
        else:
            raise ValueError(f"line {number}: invalid command {line}")


def load(line: str, block: list[str]) -> Load:
    found = LOAD.fullmatch(line)
    if found is None:
        raise ValueError(f"invalid load: {line}")
    command = Load(parse_duration_ms(found.group(2)), bool(found.group(1)))
    starts: list[int | None] | None = None
    for text in block:
        _, rest = split_line(text)
        if rest.startswith("@st"):
            starts = start_offsets(rest[3:])
            continue
        command.series.append((*read_series(text), starts))
        starts = None
    return command


def evaluation(line: str, block: list[str], number: int) -> Evaluate:
    if found := RANGE.fullmatch(line):
        kind = found.group(1)
        begin, end, step = (parse_duration_ms(found.group(i)) for i in (2, 3, 4))
        command = Evaluate(number, found.group(5), 0, (begin, end, step))
    elif found := INSTANT.fullmatch(line):
        kind = found.group(1)
        command = Evaluate(number, found.group(3), parse_duration_ms(found.group(2) or "0"), None)
    else:
        raise ValueError(f"line {number}: invalid evaluation {line}")
    command.fails = kind == "fail"
    command.ordered = kind == "ordered"
    command.must_warn, command.must_inform = kind == "warn", kind == "info"
    for text in block:
        expectation(command, text)
    return command


def expectation(command: Evaluate, text: str) -> None:
    """Adds what one line expects."""
    if text.startswith("expected_fail_message"):
        command.expects.setdefault("fail", []).append(Text("msg", text.removeprefix("expected_fail_message").strip()))
    elif text.startswith("expected_fail_regexp"):
        command.expects.setdefault("fail", []).append(
            Text("regex", text.removeprefix("expected_fail_regexp").strip())
        )
    elif found := EXPECT_RANGE.fullmatch(text):
        begin, end, step = (parse_duration_ms(found.group(i)) for i in (1, 2, 3))
        command.range, command.at, command.expects_range_vector = (begin, end, step), end, True
    elif text.startswith("expect string"):
        command.text = unquote(text.removeprefix("expect string").strip())
    elif text.startswith("expect "):
        found = EXPECT.fullmatch(text)
        if found is None:
            raise ValueError(f"invalid expectation: {text}")
        kind = found.group(1)
        command.ordered |= kind == "ordered"
        command.fails |= kind == "fail"
        command.expects.setdefault(kind, []).append(Text(found.group(2) or "", (found.group(3) or "").strip()))
    elif SCALAR.fullmatch(text):
        body = text.lower()
        command.scalar = float(int(body, 16)) if "0x" in body else float(body.replace("_", ""))
    else:
        command.series.append(read_series(text))
