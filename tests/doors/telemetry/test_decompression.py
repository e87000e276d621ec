"""Bodies are decompressed up to the limit, and malformed ones are refused."""

from __future__ import annotations

import gzip
import random
import zlib
from collections.abc import Callable

import pyarrow as pa
import pytest
import zstandard

from frazil.doors.telemetry import decompression
from frazil.doors.telemetry.decompression import decompress
from frazil.errors import BodyTooLarge, RequestError

MOST = 1 << 20


def raw_deflate(data: bytes) -> bytes:
    packer = zlib.compressobj(wbits=-zlib.MAX_WBITS)
    return packer.compress(data) + packer.flush()


CODECS = {
    "gzip": ("gzip", gzip.compress),
    "deflate": ("deflate", zlib.compress),
    "deflate without its header": ("deflate", raw_deflate),
    "zstd": ("zstd", zstandard.compress),
}
codecs = pytest.mark.parametrize(("encoding", "compress"), CODECS.values(), ids=CODECS.keys())
Compress = Callable[[bytes], bytes]


@codecs
def test_streams_of_any_length_one_after_the_other(encoding: str, compress: Compress, seed: int) -> None:
    """The streams are longer and shorter than the steps in which they are read."""
    chance = random.Random(seed)
    data = [chance.randbytes(chance.choice((0, 1, 1000, 16_000, 70_000))) for _ in range(12)]
    body, whole = b"".join(map(compress, data)), b"".join(data)
    assert decompress(body, encoding, MOST) == whole
    assert decompress(body, encoding, max(len(body), len(whole))) == whole
    with pytest.raises(RequestError, match="ends too early"):
        decompress(body[:-1], encoding, MOST)


@codecs
@pytest.mark.parametrize("streams", [1, 3])
def test_the_limit_is_that_of_all_streams_together(encoding: str, compress: Compress, streams: int) -> None:
    body = compress(bytes(30_000)) * streams
    assert decompress(body, encoding, 30_000 * streams) == bytes(30_000 * streams)
    with pytest.raises(BodyTooLarge):
        decompress(body, encoding, 30_000 * streams - 1)


@codecs
def test_more_streams_than_anybody_sends(encoding: str, compress: Compress) -> None:
    most = decompression._MOST_STREAMS
    assert decompress(compress(b"") * most, encoding, MOST) == b""
    with pytest.raises(RequestError, match="more than 10,000 compressed streams"):
        decompress(compress(b"") * (most + 1), encoding, MOST)


@codecs
def test_what_is_no_stream(encoding: str, compress: Compress) -> None:
    with pytest.raises(RequestError, match=f"is not {encoding}"):
        decompress(b"\xff" * 100, encoding, MOST)
    with pytest.raises(RequestError, match=f"is not {encoding}"):
        decompress(compress(b"a") + b"\xff" * 100, encoding, MOST)


@pytest.mark.parametrize("size", ["80808020", "ffffff1f", "ffff7f"])
def test_a_block_of_snappy_is_not_longer_than_its_bytes_can_stand_for(size: str) -> None:
    """Otherwise a few bytes would make the server allocate megabytes."""
    with pytest.raises(RequestError, match="longer than so many bytes can stand for"):
        decompress(bytes.fromhex(size) + b"\0a", "snappy", 64 * MOST)


@pytest.mark.parametrize("count", [0, 1, 60, 64, 1000, 10 * MOST])
def test_blocks_of_snappy_that_grow_most(count: int) -> None:
    packed = pa.compress(bytes(count), "snappy", asbytes=True)
    assert decompress(packed, "snappy", 64 * MOST) == bytes(count)
