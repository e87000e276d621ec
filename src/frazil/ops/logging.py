"""Sets up log output on stderr: lines for people on a terminal, JSON lines otherwise.

`logger.info("sealed", extra={"topic": "orders"})` shows its extra fields in both.
"""

from __future__ import annotations

import json
import logging
import os
import sys
from datetime import UTC, datetime
from typing import TextIO

from frazil.config.model import LoggingConfig

_STANDARD = frozenset(vars(logging.makeLogRecord({}))) | {"message", "asctime", "taskName"}
_COLOURS = {"DEBUG": "2", "INFO": "32", "WARNING": "33", "ERROR": "31", "CRITICAL": "1;31"}


def setup_logging(config: LoggingConfig, stream: TextIO | None = None) -> None:
    """Send all log records to `stream`, by default stderr. Calling it again replaces the earlier set-up."""
    stream = sys.stderr if stream is None else stream
    handler = _Handler(stream)
    terminal = stream.isatty()
    if config.format == "human" or (config.format == "auto" and terminal):
        handler.setFormatter(HumanFormatter(colour=terminal and "NO_COLOR" not in os.environ))
    else:
        handler.setFormatter(JsonFormatter())
    root = logging.getLogger()
    root.handlers = [other for other in root.handlers if not isinstance(other, _Handler)] + [handler]
    root.setLevel(config.level.upper())
    logging.captureWarnings(True)


class JsonFormatter(logging.Formatter):
    def format(self, record: logging.LogRecord) -> str:
        line: dict[str, object] = {
            "timestamp": _timestamp(record).isoformat(timespec="milliseconds").replace("+00:00", "Z"),
            "level": record.levelname.lower(),
            "logger": record.name,
            "message": record.getMessage(),
        }
        for key, value in _extras(record).items():
            line[f"{key}_" if key in line or key == "exception" else key] = value
        trace = _trace(self, record)
        if trace:
            line["exception"] = trace
        return json.dumps(line, default=str, ensure_ascii=False)


class HumanFormatter(logging.Formatter):
    def __init__(self, colour: bool) -> None:
        super().__init__()
        self._colour = colour

    def format(self, record: logging.LogRecord) -> str:
        clock = _timestamp(record).astimezone().strftime("%H:%M:%S.%f")[:-3]
        level = self._paint(_COLOURS.get(record.levelname, "0"), f"{record.levelname:<7}")
        fields = " ".join(f"{key}={_plain(value)}" for key, value in _extras(record).items())
        name = self._paint("2", record.name)
        line = "  ".join(part for part in (clock, level, name, record.getMessage(), fields) if part)
        trace = _trace(self, record)
        return f"{line}\n{trace}" if trace else line

    def _paint(self, code: str, text: str) -> str:
        return f"\x1b[{code}m{text}\x1b[0m" if self._colour else text


class _Handler(logging.StreamHandler[TextIO]):
    """`setup_logging` recognises its own handler by this class."""


def _timestamp(record: logging.LogRecord) -> datetime:
    return datetime.fromtimestamp(record.created, tz=UTC)


def _extras(record: logging.LogRecord) -> dict[str, object]:
    return {key: value for key, value in vars(record).items() if key not in _STANDARD}


def _trace(formatter: logging.Formatter, record: logging.LogRecord) -> str:
    parts = []
    if record.exc_info and record.exc_info[0] is not None:
        parts.append(formatter.formatException(record.exc_info))
    if record.stack_info:
        parts.append(formatter.formatStack(record.stack_info))
    return "\n".join(parts)


def _plain(value: object) -> str:
    text = str(value)
    return (
        text if text and text.isprintable() and not set(text) & set(' "=') else json.dumps(text, ensure_ascii=False)
    )
