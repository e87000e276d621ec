"""Hashes label sets as Prometheus does, so that `limit_ratio` chooses the same series."""

from __future__ import annotations

import struct

import numpy as np

from frazil.query.promql.evaluation.matrix import Floats
from frazil.query.promql.series.labels import LabelTable

MASK = (1 << 64) - 1
PRIMES = (
    11400714785074694791,
    14029467366897019727,
    1609587929392839161,
    9650029242287828579,
    2870177450012600261,
)
GREATEST = float(2**64 - 1)


def rotate(value: int, by: int) -> int:
    return ((value << by) | (value >> (64 - by))) & MASK


def mix(state: int, lane: int) -> int:
    return rotate((state + lane * PRIMES[1]) & MASK, 31) * PRIMES[0] & MASK


def xxhash64(data: bytes) -> int:
    """Returns the 64-bit xxHash of some bytes, with seed 0."""
    length, at = len(data), 0
    if length >= 32:
        lanes = [(PRIMES[0] + PRIMES[1]) & MASK, PRIMES[1], 0, -PRIMES[0] & MASK]
        while at + 32 <= length:
            for index, lane in enumerate(struct.unpack_from("<4Q", data, at)):
                lanes[index] = mix(lanes[index], lane)
            at += 32
        state = sum(rotate(lane, by) for lane, by in zip(lanes, (1, 7, 12, 18), strict=True)) & MASK
        for lane in lanes:
            state = ((state ^ mix(0, lane)) * PRIMES[0] + PRIMES[3]) & MASK
    else:
        state = PRIMES[4]
    state = (state + length) & MASK
    while at + 8 <= length:
        state ^= mix(0, struct.unpack_from("<Q", data, at)[0])
        state = (rotate(state, 27) * PRIMES[0] + PRIMES[3]) & MASK
        at += 8
    if at + 4 <= length:
        state ^= struct.unpack_from("<I", data, at)[0] * PRIMES[0] & MASK
        state = (rotate(state, 23) * PRIMES[1] + PRIMES[2]) & MASK
        at += 4
    for byte in data[at:]:
        state ^= byte * PRIMES[4] & MASK
        state = rotate(state, 11) * PRIMES[0] & MASK
    state = (state ^ (state >> 33)) * PRIMES[1] & MASK
    state = (state ^ (state >> 29)) * PRIMES[2] & MASK
    return state ^ (state >> 32)


def encoded(text: str) -> bytes:
    """Returns a text with its length in front."""
    data = text.encode("utf-8", "surrogateescape")
    if len(data) < 255:
        return bytes([len(data)]) + data
    return b"\xff" + len(data).to_bytes(3, "little") + data


def ratio_offsets(labels: LabelTable) -> Floats:
    """Returns for each series a number from 0 to 1 that depends on its labels only."""
    found = np.empty(labels.size)
    for row, pairs in enumerate(labels.rows()):
        data = b"".join(
            encoded(name) + encoded(value)
            for name, value in sorted(pairs.items(), key=lambda pair: pair[0].encode("utf-8", "surrogateescape"))
        )
        found[row] = float(xxhash64(data)) / GREATEST
    return found
