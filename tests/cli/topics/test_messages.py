"""Tests `frazil topics produce`, `tail`, `stats`, `create` and `delete`, with and without `frazil serve`."""

from __future__ import annotations

import json
import signal
import subprocess
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from tests.cli.support import FRAZIL, TIMEOUT_SECONDS, Served, environment, frazil, frazil_given, serving


def good(folder: Path, *arguments: str, stdin: bytes = b"") -> str:
    result = frazil_given(stdin, folder, *arguments)
    assert result.returncode == 0, result.stderr
    return result.stdout


def messages(folder: Path, *arguments: str) -> list[dict[str, object]]:
    return [json.loads(line) for line in good(folder, "topics", "tail", *arguments, "--output", "json").splitlines()]


def test_produce_tail_stats_delete(tmp_path: Path) -> None:
    with serving(tmp_path) as served:
        at = ("--url", served.url)
        missing = frazil(tmp_path, "topics", "produce", "orders", "hi", *at)
        assert (missing.returncode, missing.stdout) == (1, "")
        assert "does not exist" in missing.stderr
        assert "--create" in missing.stderr

        made = good(tmp_path, "topics", "create", "orders", "--partitions", "2", *at)
        assert made == "Topic 'orders' is there, with 2 partitions.\n"
        assert "existed already" in good(tmp_path, "topics", "create", "orders", *at)
        other = frazil(tmp_path, "topics", "create", "orders", "--partitions", "3", *at)
        assert (other.returncode, "has 2 partitions, not 3" in other.stderr) == (1, True)

        stored = good(tmp_path, "topics", "produce", "orders", "a pound of ice", "--partition", "1", *at)
        assert stored == "1 message stored: partition 1, offset 0\n"
        lines = b"first\r\n\xff\n\nlast, \x1b[31mwithout end"
        result = json.loads(
            good(tmp_path, "topics", "produce", "orders", "--key", "k", *at, "--output", "json", stdin=lines)
        )
        (home,) = result["partitions"]
        assert (result["topic"], result["messages"]) == ("orders", 4)
        assert home["last_offset"] - home["first_offset"] == 3
        (tmp_path / "more").write_text("from a file\n")
        good(tmp_path, "topics", "produce", "orders", "--file", "more", "--partition", "0", *at)

        everything = messages(tmp_path, "orders", "--from", "earliest", *at)
        assert len(everything) == 6
        keyed = [each for each in everything if each.get("key") == "k"]
        assert [each.get("payload", each.get("payload_base64")) for each in keyed] == [
            "first",
            "/w==",
            "",
            "last, \x1b[31mwithout end",
        ]
        assert [each["offset"] for each in messages(tmp_path, "orders", "--from", "-1", "--partition", "0", *at)] == [
            max(int(str(each["offset"])) for each in everything if each["partition"] == 0)
        ]
        assert messages(tmp_path, "orders", "--from", "latest", *at) == []
        assert messages(tmp_path, "orders", "--from", "2020-01-01", "--limit", "1", *at) == everything[:1]
        raw = good(tmp_path, "topics", "tail", "orders", "--partition", "1", "--limit", "1", "--output", "raw", *at)
        assert raw == "a pound of ice\n" if home["partition"] == 0 else raw
        people = good(tmp_path, "topics", "tail", "orders", *at)
        assert "a pound of ice" in people
        assert "\\u001b[31mwithout end" in people
        assert "0xff (1 bytes)" in people

        stats = json.loads(good(tmp_path, "topics", "stats", "orders", "--output", "json", *at))
        assert stats["message_count"] == 6
        assert "6 messages" in good(tmp_path, "topics", "stats", "/frazil/orders", *at)

        unsure = frazil(tmp_path, "topics", "delete", "orders", *at)
        assert (unsure.returncode, "--drop-table" in unsure.stderr) == (1, True)
        unasked = frazil(tmp_path, "topics", "delete", "orders", "--keep-table", *at)
        assert (unasked.returncode, "6 will be gone. Say --yes" in unasked.stderr) == (1, True)
        gone = good(tmp_path, "topics", "delete", "orders", "--keep-table", "--yes", *at)
        assert "is deleted; it had 6 messages" in gone
        assert frazil(tmp_path, "topics", "stats", "orders", *at).returncode == 1


def test_more_than_one_request_holds(tmp_path: Path) -> None:
    lines = b"".join(b"%01000d\n" % number for number in range(3_000))
    with serving(tmp_path) as served:
        result = good(tmp_path, "topics", "produce", "numbers", "--create", "--url", served.url, stdin=lines)
        assert result == "3,000 messages stored: partition 0, offsets 0 to 2999\n"
        raw = good(
            tmp_path, "topics", "tail", "numbers", "--from", "earliest", "--output", "raw", "--url", served.url
        )
        assert raw.encode() == lines


def test_without_a_running_frazil_the_data_folder_is_read_and_nothing_is_written(tmp_path: Path) -> None:
    with serving(tmp_path) as served:
        good(tmp_path, "topics", "produce", "orders", "--create", "--url", served.url, stdin=b"a\nb\nc\n")
        served.end(signal.SIGKILL)
    (tmp_path / "frazil.yaml").write_text("server: {port: 1}\n")
    assert [each["payload"] for each in messages(tmp_path, "orders", "--from", "-2")] == ["b", "c"]
    assert "3 messages" in good(tmp_path, "topics", "stats", "orders")
    for arguments in (
        ("produce", "orders", "d"),
        ("create", "more"),
        ("delete", "orders", "--keep-table", "--yes"),
        ("tail", "orders", "--follow"),
    ):
        result = frazil(tmp_path, "topics", *arguments)
        assert result.returncode == 6, arguments
        assert "no Frazil answers at http://127.0.0.1:1: " in result.stderr
        assert "Start it with `frazil serve`" in result.stderr
    missing = frazil(tmp_path, "topics", "tail", "nope")
    assert (missing.returncode, "'nope' does not exist" in missing.stderr) == (1, True)


@contextmanager
def following(folder: Path, url: str, *arguments: str) -> Iterator[subprocess.Popen[str]]:
    process = subprocess.Popen(
        [FRAZIL, "topics", "tail", "orders", "--follow", "--output", "raw", "--url", url, *arguments],
        cwd=folder,
        env=environment(),
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    try:
        yield process
    finally:
        process.kill()
        process.communicate()


@contextmanager
def serving_on(folder: Path, port: str) -> Iterator[Served]:
    """Runs a server on a port that was in use a moment ago."""
    (folder / "frazil.yaml").write_text(f"server: {{port: {port}}}\n")
    process = subprocess.Popen(
        [FRAZIL, "serve"],
        cwd=folder,
        env=environment(FRAZIL__PIPELINE__ENABLED="false"),
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    try:
        assert process.stdout is not None
        assert any(line.startswith("Ctrl-C") for line in process.stdout)
        yield Served(process, "", f"http://127.0.0.1:{port}")
    finally:
        process.kill()
        process.communicate()


@pytest.mark.parametrize("end", [signal.SIGTERM, signal.SIGKILL])
def test_follow_goes_on_when_frazil_comes_back(tmp_path: Path, end: signal.Signals) -> None:
    with serving(tmp_path) as served:
        url = served.url
        good(tmp_path, "topics", "create", "orders", "--partitions", "2", "--url", url)
        good(tmp_path, "topics", "produce", "orders", "one", "--partition", "0", "--url", url)
        with following(tmp_path, url, "--from", "earliest", "--limit", "4") as tail:
            assert tail.stdout is not None
            assert tail.stdout.readline() == "one\n"
            good(tmp_path, "topics", "produce", "orders", "two", "--partition", "1", "--url", url)
            assert tail.stdout.readline() == "two\n"
            began = time.monotonic()
            served.end(end)
            # An open stream does not keep the server from stopping.
            assert time.monotonic() - began < 15
            with serving_on(tmp_path, url.rpartition(":")[2]):
                good(tmp_path, "topics", "produce", "orders", "three", "--partition", "0", "--url", url)
                good(tmp_path, "topics", "produce", "orders", "four", "--partition", "1", "--url", url)
                rest, errors = tail.communicate(timeout=TIMEOUT_SECONDS)
            assert sorted(rest.split()) == ["four", "three"], errors
            assert tail.returncode == 0
            assert "trying again" in errors


def test_wrong_options_say_what_is_right(tmp_path: Path) -> None:
    with serving(tmp_path) as served:
        good(tmp_path, "topics", "create", "orders", "--url", served.url)
        for arguments, reason in (
            (("produce", "orders", "x", "--file", "y"), "not both"),
            (("produce", "orders", "--file", "nowhere"), "nowhere cannot be read"),
            (("produce", "orders", "x", "--partition", "7"), "has no partition 7"),
            (("produce", "a/b", "x"), "a/b"),
            (("tail", "orders", "--from", "yesterday"), "time is a time like"),
            (("tail", "orders", "--from", "5"), "the topic ends at 0"),
            (("stats", "nope"), "There are: orders"),
            (("create", "orders-part-1"), "Create that with the number of partitions"),
        ):
            result = frazil(tmp_path, "topics", *arguments, "--url", served.url)
            assert result.returncode != 0, arguments
            assert reason in result.stderr, arguments
            assert "Traceback" not in result.stderr
