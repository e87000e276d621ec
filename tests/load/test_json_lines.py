"""Types of JSON lines are learnt over a whole file, bad lines are found by number, and blocks are cut anywhere."""

from __future__ import annotations

import gzip
import json
from pathlib import Path

import pyarrow as pa
import pytest

from frazil.config.sections.log import MOST_COLUMNS
from frazil.errors import RecordTooLarge, SerializationError
from frazil.formats.json.type_inference import known_columns
from frazil.load import json_blocks as jsonblocks
from frazil.load.inputs import find_input
from frazil.load.json_lines import JsonLines

NOTHING = pa.schema([])
LIMIT = 32 << 20


def lines_of(path: Path, *, skip_bad: bool = False, limit: int = LIMIT) -> JsonLines:
    return JsonLines(find_input(str(path), "jsonl"), limit, MOST_COLUMNS, skip_bad=skip_bad)


def written(folder: Path, *lines: object) -> Path:
    path = folder / "file.jsonl"
    path.write_text("".join(f"{line if isinstance(line, str) else json.dumps(line)}\n" for line in lines))
    return path


def rows(lines: JsonLines, fixed: pa.Schema = NOTHING) -> list[dict[str, object]]:
    schema, _ = known_columns(lines.learn(fixed))
    return [row for piece in lines.batches(schema, "ignore", 0) for row in piece.batch.to_pylist()]


@pytest.fixture(params=[jsonblocks.BLOCK_BYTES, 64])
def any_blocks(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """Whole files in one block, and blocks of a few lines, must give the same result."""
    monkeypatch.setattr(jsonblocks, "BLOCK_BYTES", request.param)
    monkeypatch.setattr("frazil.load.inputs.READ_BYTES", min(request.param, 1 << 20))


@pytest.mark.usefixtures("any_blocks")
@pytest.mark.parametrize(
    ("first", "later", "kind"),
    [
        (1, 2.5, pa.float64()),
        (None, "x", pa.string()),
        ("2024-01-01", "n/a", pa.string()),
        ("2024-01-01", "2024-01-02", pa.string()),
        ([], [1], pa.list_(pa.int64())),
        ([None], ["a"], pa.list_(pa.string())),
        ({"a": 1}, {"b": "x"}, pa.struct([("a", pa.int64()), ("b", pa.string())])),
        ({"a": None}, {"a": [1.5]}, pa.struct([("a", pa.list_(pa.float64()))])),
        (2**60, 2**63, pa.float64()),
    ],
)
def test_a_type_that_shows_late(tmp_path: Path, first: object, later: object, kind: pa.DataType) -> None:
    path = written(tmp_path, *[{"n": i, "v": first} for i in range(50)], {"n": 50, "v": later})
    lines = lines_of(path)
    assert lines.learn(NOTHING).field("v").type == kind
    found = rows(lines)
    assert [row["n"] for row in found] == list(range(51))
    if not isinstance(later, dict):
        assert (found[0]["v"], found[50]["v"]) == (first, later)


@pytest.mark.usefixtures("any_blocks")
@pytest.mark.parametrize(
    ("bad", "why"),
    [
        ('{"n": "x"}', "'n' should be"),
        ('{"n": 1', "not JSON: missing a comma.*, at column 8"),
        ('  {"n": abc}', "not JSON: invalid value, at column 9"),
        ("null", "not a JSON object"),
        ("7", "not a JSON object"),
        ('[{"n": 1}]', "array"),
        ('{"n": 1} {"n": 2}', "not one JSON object"),
        ('{"n": 1, "n": 2}', "twice"),
        ('{"n": 1e999}', "too big"),
        ('{"n": NaN}', "not finite"),
        ('{"n": ' + "[" * 100_000 + "]" * 100_000 + "}", "nested"),
    ],
)
def test_a_bad_line_is_named_or_left_out(tmp_path: Path, bad: str, why: str) -> None:
    good = [{"n": i} for i in range(40)]
    path = written(tmp_path, *good[:30], "", bad, *good[30:])
    with pytest.raises(SerializationError, match=f"file.jsonl, line 32: .*({why})"):
        lines_of(path).learn(NOTHING)
    lines = lines_of(path, skip_bad=True)
    assert rows(lines) == good
    assert lines.bad == 1
    assert lines.first_bad
    assert "line 32" in lines.first_bad


@pytest.mark.usefixtures("any_blocks")
def test_objects_that_run_over_the_ends_of_lines(tmp_path: Path) -> None:
    """There are as many objects as lines, but not one in each."""
    path = written(tmp_path, {"n": 1}, '{"n":', '{"n": 1}}', '{"n": 1} {"n": 2}', {"n": 2})
    lines = lines_of(path, skip_bad=True)
    assert rows(lines) == [{"n": 1}, {"n": 2}]
    assert lines.bad == 3


def test_bytes_that_are_not_text(tmp_path: Path) -> None:
    path = tmp_path / "file.jsonl"
    path.write_bytes(b'{"n": "ok"}\n{"n": "\xff"}\n')
    with pytest.raises(SerializationError, match="line 2: it is not UTF-8"):
        lines_of(path).learn(NOTHING)


def test_many_bad_lines(tmp_path: Path) -> None:
    path = written(tmp_path, *[{"n": i} if i % 3 else "oops" for i in range(3000)])
    lines = lines_of(path, skip_bad=True)
    assert [row["n"] for row in rows(lines)] == [i for i in range(3000) if i % 3]
    assert lines.bad == 1000


@pytest.mark.usefixtures("any_blocks")
def test_no_line_end_blank_lines_windows_and_a_mark_at_the_start(tmp_path: Path) -> None:
    path = tmp_path / "file.jsonl"
    path.write_bytes(b'\xef\xbb\xbf{"n": 1}\r\n\r\n  \n{"n": 2}\r\n\n{"n": 3}')
    assert rows(lines_of(path)) == [{"n": 1}, {"n": 2}, {"n": 3}]
    path.write_bytes(b"\n \n")
    assert rows(lines_of(path)) == []
    path.write_bytes(b"")
    assert rows(lines_of(path)) == []


@pytest.mark.usefixtures("any_blocks")
@pytest.mark.parametrize("skip", [0, 1, 17, 49, 50])
def test_a_load_can_go_on_from_any_line(tmp_path: Path, skip: int) -> None:
    path = written(tmp_path, *[{"n": i} for i in range(50)])
    lines = lines_of(path)
    pieces = list(lines.batches(lines.learn(NOTHING), "ignore", skip))
    assert [n for piece in pieces for n in piece.batch["n"].to_pylist()] == list(range(skip, 50))
    assert [piece.position for piece in pieces][-1:] == ([50] if skip < 50 else [])


def test_fixed_types_are_kept_and_given_ones_are_strict(tmp_path: Path) -> None:
    fixed = pa.schema([("n", pa.float64()), ("day", pa.date32()), ("at", pa.timestamp("us", "UTC"))])
    path = written(tmp_path, {"n": 1, "day": "2024-02-29", "at": "2024-01-01T00:00:00+02:00", "more": True})
    lines = lines_of(path)
    assert lines.learn(fixed) == pa.schema([*fixed, pa.field("more", pa.bool_())])
    with pytest.raises(SerializationError, match="line 1: the schema given has no column 'more'"):
        list(lines.batches(fixed, "error", 0))
    required = pa.schema([pa.field("absent", pa.int64(), nullable=False)])
    with pytest.raises(SerializationError, match=r"line 1: .*required"):
        lines.learn(required)


def test_a_line_that_no_append_can_hold(tmp_path: Path) -> None:
    path = written(tmp_path, {"n": "x"}, {"n": "x" * 5000}, {"n": "y"})
    lines = lines_of(path, limit=2000)
    with pytest.raises(RecordTooLarge, match="line 2"):
        list(lines.batches(lines.learn(NOTHING), "ignore", 0))


def test_a_file_is_split_into_appends_under_the_limit(tmp_path: Path) -> None:
    path = written(tmp_path, *[{"n": "x" * 500} for _ in range(100)])
    lines = lines_of(path, limit=2000)
    pieces = list(lines.batches(lines.learn(NOTHING), "ignore", 0))
    assert sum(piece.batch.num_rows for piece in pieces) == 100
    assert all(piece.batch.nbytes <= 2000 for piece in pieces)


def test_a_compressed_file_that_is_cut(tmp_path: Path) -> None:
    path = tmp_path / "file.jsonl.gz"
    whole = gzip.compress(b"".join(b'{"n": %d}\n' % i for i in range(1000)))
    path.write_bytes(whole)
    assert len(rows(lines_of(path))) == 1000
    path.write_bytes(whole[: len(whole) // 2])
    with pytest.raises(SerializationError, match=r"file\.jsonl\.gz cannot be read"):
        lines_of(path).learn(NOTHING)
