"""Tests the real command `frazil sql`."""

from __future__ import annotations

import io
import json
import subprocess
from pathlib import Path

import pyarrow as pa
import pytest

from tests.cli.support import FRAZIL, TIMEOUT_SECONDS, environment, frazil, serving
from tests.query.support import World, rows

# The tests share one topic.
pytestmark = pytest.mark.xdist_group("sql-command")


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Makes a folder with a topic whose rows are in table, segments and WAL."""
    folder = tmp_path_factory.mktemp("cli")
    batch = pa.record_batch({**{name: rows(0, 600)[name] for name in ("id", "text")}, "who": ["ann", "bob"] * 300})
    with World(folder, topics={"orders": {"tenant_column": "who"}}) as world:
        world.fill("orders", batch, moved=200, sealed=400)
    (folder / "frazil.yaml").write_text("topics:\n  orders:\n    tenant_column: who\n")
    return folder


def test_rows_are_printed_for_people_and_for_programs(folder: Path) -> None:
    done = frazil(folder, "sql", "SELECT id, text, [id] AS list FROM orders WHERE id IN (1, 599) ORDER BY id")
    assert done.returncode == 0, done.stderr
    lines = done.stdout.splitlines()
    assert [line.split() for line in lines[:3]] == [
        ["id", "text", "list"],
        ["1", "row", "1", "[1]"],
        ["599", "row", "599", "[599]"],
    ]
    assert lines[-1].startswith("2 rows in ")

    done = frazil(folder, "sql", "SELECT id FROM orders ORDER BY id", "--output", "json")
    assert json.loads(done.stdout) == [{"id": number} for number in range(600)]
    done = frazil(folder, "sql", "SELECT id FROM orders")
    assert "600 rows" in done.stdout
    assert "first 500" in done.stdout
    done = frazil(folder, "sql", "SELECT id, text FROM orders WHERE id = 7", "--output", "csv", "--tenant", "bob")
    assert done.stdout == "id,text\n7,row 7\n"
    assert (
        frazil(folder, "sql", "SELECT id FROM orders WHERE id = 7", "--output", "csv", "--tenant", "ann").stdout
        == "id\n"
    )


def test_queries_come_from_files_and_pipes(folder: Path) -> None:
    (folder / "query.sql").write_text("SELECT count(*) AS n FROM orders")
    assert json.loads(frazil(folder, "sql", "-f", "query.sql", "--output", "json").stdout) == [{"n": 600}]
    done = subprocess.run(
        [FRAZIL, "sql", "--output", "arrow"],
        cwd=folder,
        env=environment(),
        input=b"SELECT count(*) AS n FROM orders",
        capture_output=True,
        timeout=TIMEOUT_SECONDS,
        check=True,
    )
    assert pa.ipc.open_stream(io.BytesIO(done.stdout)).read_all().to_pylist() == [{"n": 600}]


@pytest.mark.parametrize(
    ("arguments", "code", "said"),
    [
        (["SELECT id FRM orders"], 1, "line 1, column 15: syntax error"),
        (["SELECT * FROM order_"], 1, "There is no table 'order_'. Did you mean 'orders'?"),
        (["SELECT 1", "-f", "query.sql"], 1, "not both"),
        (["-f", "none.sql"], 4, "none.sql cannot be read"),
        (["SELECT 1", "--url", "http://127.0.0.1:1"], 6, "no Frazil answers"),
    ],
)
def test_what_is_wrong_is_said_in_a_sentence(folder: Path, arguments: list[str], code: int, said: str) -> None:
    done = frazil(folder, "sql", *arguments)
    assert (done.returncode, said in done.stderr, "Traceback" in done.stderr) == (code, True, False), done.stderr


def test_a_running_frazil_can_be_asked(folder: Path) -> None:
    with serving(folder) as served:
        done = frazil(
            folder,
            "sql",
            "SELECT count(*) AS n FROM orders",
            "--url",
            served.url,
            "--tenant",
            "bob",
            "--output",
            "json",
        )
        assert json.loads(done.stdout) == [{"n": 300}], done.stderr
        done = frazil(folder, "sql", "SELECT\n idd FROM orders", "--url", served.url)
        assert (done.returncode, "line 2, column 2" in done.stderr) == (1, True), done.stderr
