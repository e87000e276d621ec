from __future__ import annotations

import zlib

import pytest
from hypothesis import given
from hypothesis import strategies as st

from frazil.errors import LogVersionUnsupported
from frazil.framefile import frames

bodies = st.lists(st.binary(max_size=200), max_size=12)


def written(contents: list[bytes]) -> bytes:
    return b"".join(bytes(part) for content in contents for part in frames.encode(7, [content]).parts)


def read_back(data: bytes) -> tuple[list[bytes], frames.Outcome]:
    view = memoryview(data)
    *clean, end = frames.scan(view)
    assert isinstance(end, frames.Outcome)
    return [bytes(frame.body(view)) for frame in clean if isinstance(frame, frames.Frame)], end


def same(read: list[bytes], contents: list[bytes]) -> bool:
    """Bodies come back padded with zeros."""
    return all(
        r[: len(c)] == c and not any(r[len(c) :]) and len(r) - len(c) < frames.ALIGN
        for r, c in zip(read, contents, strict=True)
    )


@given(bodies)
def test_what_is_written_is_read_back(contents: list[bytes]) -> None:
    read, end = read_back(written(contents))
    assert same(read, contents)
    assert end is frames.Outcome.NEED_MORE


@given(bodies, st.binary(max_size=64))
def test_a_body_in_parts_is_the_same_as_whole(contents: list[bytes], extra: bytes) -> None:
    parts = frames.encode(7, [*contents, extra])
    whole = frames.encode(7, [b"".join(contents) + extra])
    assert b"".join(bytes(p) for p in parts.parts) == b"".join(bytes(p) for p in whole.parts)
    assert parts.size == len(b"".join(bytes(p) for p in whole.parts))


@given(bodies, st.data())
def test_a_cut_file_gives_the_longest_clean_prefix(contents: list[bytes], data: st.DataObject) -> None:
    whole = written(contents)
    cut = data.draw(st.integers(0, len(whole)))
    read, _ = read_back(whole[:cut])
    assert same(read, contents[: len(read)])
    assert len(written(contents[: len(read) + 1])) > cut or len(read) == len(contents)


@given(bodies.filter(bool), st.data())
def test_no_flipped_bit_goes_unnoticed(contents: list[bytes], data: st.DataObject) -> None:
    whole = bytearray(written(contents))
    bit = data.draw(st.integers(0, len(whole) * 8 - 1))
    whole[bit // 8] ^= 1 << bit % 8
    read, _ = read_back(bytes(whole))
    assert len(read) < len(contents)
    assert same(read, contents[: len(read)])


@given(bodies.filter(lambda b: len(b) > 1), st.integers(0, 7), st.data())
def test_clean_frames_behind_a_damaged_one_are_found(contents: list[bytes], bit: int, data: st.DataObject) -> None:
    damaged = data.draw(st.integers(0, len(contents) - 2))
    start = len(written(contents[:damaged]))
    after = len(written(contents[: damaged + 1]))
    whole = bytearray(written(contents))
    whole[data.draw(st.integers(start, after - 1))] ^= 1 << bit
    found = frames.next_clean(memoryview(whole), start + frames.ALIGN)
    assert found is not None
    assert found.start <= after


def test_zeros_are_the_end_not_damage() -> None:
    read, end = read_back(written([b"one", b"two"]) + bytes(4096))
    assert len(read) == 2
    assert end is frames.Outcome.NEED_MORE


def test_a_newer_version_is_refused_by_name() -> None:
    data = bytearray(written([b"from the future"]))
    data[6] = frames.VERSION + 1
    view = memoryview(data)
    length = int.from_bytes(view[:4], "little")
    data[4 + length :] = zlib.crc32(view[: 4 + length]).to_bytes(4, "little")
    frame = frames.read_frame(memoryview(data), 0)
    assert isinstance(frame, frames.Frame)
    with pytest.raises(LogVersionUnsupported, match="newer version"):
        frames.check_version(frame, "a.wal")
