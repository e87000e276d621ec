from __future__ import annotations

import io
import json
import logging
from collections.abc import Iterator
from datetime import UTC, datetime

import pytest

from frazil.config.model import LoggingConfig
from frazil.ops.logging import setup_logging

logger = logging.getLogger("frazil.test")


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


@pytest.fixture(autouse=True)
def restored() -> Iterator[None]:
    root = logging.getLogger()
    handlers, level = list(root.handlers), root.level
    yield
    root.handlers, root.level = handlers, level
    logging.captureWarnings(False)


def test_json_lines_when_nobody_watches() -> None:
    stream = io.StringIO()
    setup_logging(LoggingConfig(), stream)
    before = datetime.now(UTC)
    logger.info("sealed %d rows", 3, extra={"topic": "orders", "level": 7, "where": object})
    line = json.loads(stream.getvalue())
    assert abs((datetime.fromisoformat(line["timestamp"]) - before).total_seconds()) < 60
    assert line["timestamp"].endswith("Z")
    del line["timestamp"]
    assert line == {
        "level": "info",
        "logger": "frazil.test",
        "message": "sealed 3 rows",
        "topic": "orders",
        "level_": 7,
        "where": "<class 'object'>",
    }


def test_an_exception_stays_on_its_json_line() -> None:
    stream = io.StringIO()
    setup_logging(LoggingConfig(), stream)
    try:
        raise ValueError("broken")
    except ValueError:
        logger.exception("failed")
    (line,) = stream.getvalue().splitlines()
    assert json.loads(line)["exception"].endswith("ValueError: broken")


def test_lines_for_people_on_a_terminal(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("NO_COLOR", raising=False)
    stream = Terminal()
    setup_logging(LoggingConfig(), stream)
    logger.warning("slow", extra={"topic": "orders", "reason": "disk is full"})
    line = stream.getvalue()
    assert 'slow  topic=orders reason="disk is full"' in line
    assert "\x1b[33mWARNING" in line


def test_no_colour_when_it_is_not_wanted(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("NO_COLOR", "1")
    stream = Terminal()
    setup_logging(LoggingConfig(), stream)
    logger.error("broken")
    assert "\x1b" not in stream.getvalue()


def test_the_format_can_be_chosen() -> None:
    human, machine = io.StringIO(), Terminal()
    setup_logging(LoggingConfig(format="human"), human)
    logger.info("hello")
    setup_logging(LoggingConfig(format="json"), machine)
    logger.info("hello")
    assert "INFO" in human.getvalue()
    assert human.getvalue().count("hello") == 1
    assert json.loads(machine.getvalue())["message"] == "hello"


def test_less_than_the_level_is_not_shown() -> None:
    stream = io.StringIO()
    setup_logging(LoggingConfig(level="warning"), stream)
    logger.info("hidden")
    assert stream.getvalue() == ""
