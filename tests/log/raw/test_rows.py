"""Raw appends are in the log like rows, from the first moment on."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from pathlib import Path
from tempfile import TemporaryDirectory

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from frazil.errors import (
    FrazilError,
    LogBroken,
    LogCorrupted,
    LogVersionUnsupported,
    RecordTooLarge,
    WriteFailed,
)
from frazil.log.forms import RawAppends
from frazil.log.positions import Origin
from frazil.log.tail import RAW_RUN_BYTES
from frazil.log.wal_follower import WalTail
from frazil.log.writer.group import Ack, BatchAppend
from frazil.log.writer.writer import PartitionWriter
from frazil.store.local import LocalStore
from tests.log.check.wal_cases import flip, opened, problems, repaired, stored, surveyed
from tests.log.raw import raw_form
from tests.log.raw.raw_form import BYTES, Ids, raw
from tests.log.support import SCHEMA, TOPIC, Machine, crash, ids, reader, rows, wal_of, writer


@pytest.fixture
def form() -> Iterator[Ids]:
    with raw_form.registered() as found:
        yield found


def request(name: int) -> Origin | None:
    return Origin(request=name.to_bytes(16)) if name else None


def append(w: PartitionWriter, content: RawAppends | pa.RecordBatch, parts: list[BatchAppend]) -> list[Ack]:
    storing = w.append_raw(content, parts) if isinstance(content, RawAppends) else w.append_many(content, parts)
    outcomes = asyncio.run(storing)
    assert not [each for each in outcomes if isinstance(each, FrazilError)]
    return [each for each in outcomes if isinstance(each, Ack)]


def test_they_can_be_read_at_once(local_store: LocalStore, tmp_path: Path, form: Ids) -> None:
    w = writer(local_store, tmp_path)
    acks = append(w, raw((100, 2), (200, 3)), [BatchAppend(2), BatchAppend(3)])
    assert [(ack.offset, ack.rows) for ack in acks] == [(0, 2), (2, 3)]
    append(w, rows(7, 1), [BatchAppend(1)])
    append(w, raw((300, 1)), [BatchAppend(1)])
    assert form.calls == []
    expected = [100, 101, 200, 201, 202, 7, 300]
    for source in (w, WalTail(wal_of(tmp_path))):
        assert ids(reader(local_store, source).read(0)) == expected
        assert ids(reader(local_store, source).read(1, 4)) == [101, 200, 201]
        assert ids(reader(local_store, source).read(6)) == [300]
    w.seal_all()
    assert ids(reader(local_store).read(0)) == expected
    w.close()


def test_rows_are_made_once_and_together(local_store: LocalStore, tmp_path: Path, form: Ids) -> None:
    machine = Machine()
    w = writer(local_store, tmp_path, machine)
    for number in range(5):
        append(w, raw((number * 10, 2), (number * 10 + 5, 1)), [BatchAppend(2), BatchAppend(1)])
        machine.clock.advance(1)
    for _ in range(3):
        assert len(ids(reader(local_store, w).read(0))) == 15
    assert form.calls == [10]
    start = Machine().clock.ms
    assert form.times == [start + second * 1000 for second in range(5) for _ in range(2)]
    follower = WalTail(wal_of(tmp_path))
    for _ in range(3):
        assert len(ids(reader(local_store, follower).read(0))) == 15
    assert form.calls == [10, 10]
    w.seal_all()
    assert form.calls == [10, 10]
    w.close()


@pytest.mark.parametrize("ack", ["local", "object"])
def test_the_tail_counts_what_their_rows_take(local_store: LocalStore, tmp_path: Path, ack: str, form: Ids) -> None:
    w = writer(local_store, tmp_path, ack=ack, max_append_bytes=50 * BYTES)

    async def scenario() -> None:
        storing = asyncio.create_task(w.append_raw(raw((0, 20), (50, 10)), [BatchAppend(20), BatchAppend(10)]))
        while not w.tail.end:
            await asyncio.sleep(0.001)
        assert (w.tail.nbytes, w.tail.raw_bytes) == (30 * BYTES, 30 * BYTES)
        w.tail.make_rows()
        assert (w.tail.nbytes, w.tail.raw_bytes) == (30 * BYTES, 0)
        await asyncio.to_thread(w.seal_all)
        assert (w.tail.nbytes, w.tail.raw_bytes) == (0, 0)
        assert [outcome.offset for outcome in await storing if isinstance(outcome, Ack)] == [0, 20]
        with pytest.raises(RecordTooLarge, match="51,000 bytes"):
            await w.append_raw(raw((0, 51)), [BatchAppend(51)])

    asyncio.run(scenario())
    assert len(ids(reader(local_store).read(0))) == 30
    w.close()


def test_after_a_crash(local_store: LocalStore, tmp_path: Path, form: Ids) -> None:
    w = writer(local_store, tmp_path)
    append(w, raw((10, 2), (20, 1)), [BatchAppend(2, request(1)), BatchAppend(1, request(2))])
    crash(w)
    again = writer(local_store, tmp_path)
    acks = append(again, raw((20, 1), (30, 2)), [BatchAppend(1, request(2)), BatchAppend(2, request(3))])
    assert [(ack.offset, ack.duplicate) for ack in acks] == [(2, True), (3, False)]
    assert again.tail.raw_bytes == 5 * BYTES
    assert ids(reader(local_store, again).read(0)) == [10, 11, 20, 30, 31]
    again.close()


def test_a_form_that_is_not_known(local_store: LocalStore, tmp_path: Path) -> None:
    """The form is named in the error, and nothing is lost: a version that knows it can go on."""
    with raw_form.registered():
        w = writer(local_store, tmp_path)
        append(w, raw((10, 2)), [BatchAppend(2)])
        crash(w)
    again = writer(local_store, tmp_path)
    with pytest.raises(LogVersionUnsupported, match=r"'ids\.1', which is not known here"):
        list(reader(local_store, again).read(0))
    again.seal_all()
    with pytest.raises(LogVersionUnsupported, match=r"'ids\.1', which is not known here"):
        list(reader(local_store, again).read(0))
    again.append(rows(30, 1))
    again.close()
    with raw_form.registered():
        known = writer(local_store, tmp_path)
        assert ids(reader(local_store, known).read(0)) == [10, 11, 30]
        known.close()


def test_without_enough_memory_it_is_sealed_later(local_store: LocalStore, tmp_path: Path, form: Ids) -> None:
    """A few raw appends beside rows are decoded to be sealed."""
    w = writer(local_store, tmp_path)
    append(w, raw((10, 2)), [BatchAppend(2)])
    append(w, rows(7, 1), [BatchAppend(1)])
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(form, "rows", lambda *_, **__: pa.allocate_buffer(1 << 60))
        with pytest.raises(WriteFailed, match="not enough memory") as told:
            w.seal()
    assert told.value.retryable
    w.seal_all()
    assert ids(reader(local_store, w).read(0)) == [10, 11, 7]
    w.close()


def test_other_numbers_of_rows_than_were_stored(local_store: LocalStore, tmp_path: Path, form: Ids) -> None:
    w = writer(local_store, tmp_path)
    append(w, raw((10, 2)), [BatchAppend(3)])
    append(w, rows(7, 1), [BatchAppend(1)])
    with pytest.raises(LogBroken, match="became 2 rows, but 3 were stored"):
        w.seal()
    crash(w)


# --- sealed as they came ---------------------------------------------------------------------------------------


def test_sealed_as_they_came(local_store: LocalStore, tmp_path: Path, form: Ids) -> None:
    """They are not decoded before they are read."""
    machine = Machine()
    w = writer(local_store, tmp_path, machine)
    append(w, raw((100, 2), (200, 3)), [BatchAppend(2), BatchAppend(3)])
    machine.clock.advance(1)
    append(w, raw((300, 4)), [BatchAppend(4)])
    w.seal_all()
    assert form.calls == []
    expected = [100, 101, 200, 201, 202, 300, 301, 302, 303]
    assert ids(reader(local_store).read(0)) == expected
    assert form.calls == [3]
    start = Machine().clock.ms
    assert form.times == [start, start, start + 1000]
    for first in range(9):
        for end in range(first, 10):
            assert ids(reader(local_store).read(first, end)) == expected[first:end]
            assert ids(reader(local_store).read(first, end, piece_bytes=BYTES)) == expected[first:end]
    assert [each.batch.schema.names for each in reader(local_store).read(0, columns=["text"])] == [["text"]]
    w.close()


def test_what_is_read_bit_by_bit_is_made_bit_by_bit(local_store: LocalStore, tmp_path: Path, form: Ids) -> None:
    w = writer(local_store, tmp_path)
    for number in range(200):
        append(w, raw((number * 10, 10)), [BatchAppend(10)])
    w.seal_all()
    found = list(reader(local_store).read(500, 1500, piece_bytes=100 * BYTES))
    assert ids(iter(found)) == list(range(500, 1500))
    assert {each.batch.num_rows for each in found} == {100}
    assert max(form.calls) == 10
    w.close()


def test_many_are_a_segment_of_their_own(local_store: LocalStore, tmp_path: Path, form: Ids) -> None:
    """Many raw appends are sealed as they came, beside a few that are decoded with the rows."""
    many = RAW_RUN_BYTES // BYTES + 1
    w = writer(local_store, tmp_path, max_append_bytes=2 * RAW_RUN_BYTES, max_tail_bytes=8 * RAW_RUN_BYTES)
    append(w, rows(1, 2), [BatchAppend(2)])
    append(w, raw((10, 3)), [BatchAppend(3)])
    append(w, rows(4, 1), [BatchAppend(1)])
    append(w, raw((100, many)), [BatchAppend(many)])
    append(w, rows(5, 1), [BatchAppend(1)])
    expected = [(0, 6), (6, many + 6), (many + 6, many + 7)]
    assert [(each.first, each.end) for each in iter(w.seal, None)] == expected
    assert form.calls == [1]
    assert ids(reader(local_store).read(0, 6)) == [1, 2, 10, 11, 12, 4]
    assert ids(reader(local_store).read(many + 5)) == [100 + many - 1, 5]
    w.close()


def test_damage_is_told(local_store: LocalStore, tmp_path: Path, form: Ids) -> None:
    w = writer(local_store, tmp_path)
    append(w, raw((10, 20)), [BatchAppend(20)])
    segment = w.seal()
    w.close()
    assert segment is not None
    path = tmp_path / "store" / segment.key
    whole = path.read_bytes()
    for at in range(len(whole)):
        path.write_bytes(whole[:at] + bytes([whole[at] ^ 1]) + whole[at + 1 :])
        try:
            assert ids(reader(local_store).read(0)) == list(range(10, 30))
        except LogCorrupted:
            continue
    path.write_bytes(whole)
    assert ids(reader(local_store).read(0)) == list(range(10, 30))


_appends = st.lists(st.tuples(st.integers(1, 4), st.integers(0, 6)), min_size=1, max_size=5)
_steps = st.one_of(
    st.tuples(st.sampled_from(["raw", "rows"]), _appends),
    st.tuples(st.sampled_from(["seal", "seal one", "crash", "read", "follow"]), st.none()),
)


@given(st.lists(_steps, max_size=20))
def test_as_if_they_had_been_rows(steps: list[tuple[str, list[tuple[int, int]] | None]]) -> None:
    """An append is given by its number of rows and its request; 0 means no request."""
    with TemporaryDirectory() as folder, raw_form.registered():
        store = LocalStore(Path(folder, "store"))
        w = writer(store, Path(folder))
        follower = WalTail(wal_of(Path(folder)))
        stored: list[int] = []
        places: dict[int, tuple[int, int]] = {}
        first = 0
        for step, appends in steps:
            match step:
                case "seal":
                    w.seal_all()
                case "seal one":
                    w.seal()
                case "crash":
                    crash(w)
                    w = writer(store, Path(folder))
                    follower = WalTail(wal_of(Path(folder)))
                case "read":
                    assert ids(reader(store, w).read(0)) == stored
                case "follow":
                    assert ids(reader(store, follower).read(0)) == stored
            if appends is None:
                continue
            parts = [BatchAppend(size, request(name)) for size, name in appends]
            total = sum(size for size, _ in appends)
            begins = [first + sum(size for size, _ in appends[:place]) for place in range(len(appends))]
            sizes = [size for size, _ in appends]
            content = raw(*zip(begins, sizes, strict=True)) if step == "raw" else rows(first, total)
            for begin, (size, name), ack in zip(begins, appends, append(w, content, parts), strict=True):
                duplicate = name in places
                place = places[name] if duplicate else (len(stored), size)
                assert (ack.offset, ack.rows, ack.duplicate) == (*place, duplicate)
                if not duplicate:
                    stored += range(begin, begin + size)
                    places |= {name: place} if name else {}
            first += total
        assert w.next_offset == len(stored)
        assert ids(reader(store, w).read(0)) == stored
        w.close()


def test_they_are_saved_by_repair_like_rows(tmp_path: Path, form: Ids) -> None:
    with opened(tmp_path) as log:
        w = log.writer(TOPIC, SCHEMA)
        for number in range(4):
            append(w, raw((number * 10, 2)), [BatchAppend(2, request(number + 1))])
    assert not problems(tmp_path)
    harmed = surveyed(tmp_path).records[1]
    flip(harmed.path, (harmed.frame.start + harmed.frame.end) // 2)
    plan, done = repaired(tmp_path)
    assert plan.action == "salvage"
    assert done
    assert stored(tmp_path) == [0, 1, 20, 21, 30, 31]
    with opened(tmp_path) as log:
        w = log.writer(TOPIC, SCHEMA)
        acks = append(w, raw((20, 2), (10, 2)), [BatchAppend(2, request(3)), BatchAppend(2, request(2))])
        assert [ack.duplicate for ack in acks] == [True, False]
        w.seal_all()
    assert stored(tmp_path) == [0, 1, 20, 21, 30, 31, 10, 11]


def test_a_name_that_is_too_long(local_store: LocalStore, tmp_path: Path) -> None:
    w = writer(local_store, tmp_path)
    (outcome,) = asyncio.run(w.append_raw(raw((10, 2))._replace(form="a name of 17 byte"), [BatchAppend(2)]))
    assert isinstance(outcome, FrazilError)
    assert "has more than 16 bytes" in str(outcome)
    assert w.next_offset == 0
    w.close()
