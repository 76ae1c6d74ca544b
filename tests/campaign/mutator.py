"""Damage: files changed at random, as bytes, as text with numbers in it, and behind a sum that still fits."""

from __future__ import annotations

import hashlib
import re
from random import Random

from somcot.plumbing.records import HEAD, MAGIC

NUMBERS = (
    b"0", b"-1", b"1e308", b"-1e-320", b"nan", b"inf", b"-Infinity", b"9223372036854775807", b"-9223372036854775809",
    b"18446744073709551616", b"1" * 400, b"0.1", b"1e400", b"1_000", b"0x10", b"true", b"null", b'""', b"[]", b"{}",
)  # fmt: skip
WORDS = (
    b"\n", b"\r", b"\r\n", b",", b";", b"\t", b'"', b"'", b"\\", b"\0", b"#", b"{", b"[", b"]}", b"<", b"/>", b"&lt;",
    b"<!DOCTYPE a [<!ENTITY b 'c'>]>", b"<![CDATA[", b"\xef\xbb\xbf", b"\xff\xfe", b"\xed\xa0\x80", b"\xf0\x9f\x98\x80",
    b"\x1b[31m", b"PAR1", b"\x93NUMPY", b"PK\x03\x04", b"\x1f\x8b\x08", b"O", b"<f8", b"|O", b"V0", b"U", b"<M8[ns]",
    b"2024-02-30", b"2024-01-01T00:00:00Z", b"user", b"page", b"amount", b"when", b"ended", b"a" * 5000,
)  # fmt: skip


def mutated(data: bytes, other: bytes, rng: Random, sealed: bool = False) -> bytes:
    """A changed copy; `other` lends pieces, and of files with a sum two in three keep a right one."""
    if not sealed or rng.random() < 1 / 3:
        return _changed(data, other, rng)
    body = data[HEAD:]
    size = 8 + int.from_bytes(body[:8], "little")
    if rng.random() < 0.7:  # the record at the beginning, its length corrected
        record = _changed(body[8:size], other[HEAD + 8 :], rng)
        body = len(record).to_bytes(8, "little") + record + body[size:]
    else:
        body = _changed(body, other[HEAD:], rng)
    return resealed(data[:HEAD] + body)


def resealed(data: bytes) -> bytes:
    """The same content with a sum that fits."""
    body = data[HEAD:]
    return MAGIC + hashlib.sha256(body).hexdigest().encode("ascii") + b"\n" + body


def _changed(data: bytes, other: bytes, rng: Random) -> bytes:
    for _ in range(rng.choice((1, 1, 1, 2, 3, 8))):
        data = rng.choice(CHANGES)(data, other, rng)
    return data


def _place(data: bytes, rng: Random) -> tuple[int, int]:
    """A stretch, mostly short."""
    begin = rng.randrange(len(data) + 1)
    return begin, min(len(data), begin + rng.choice((0, 1, 1, 2, 4, 8, 40, 400)))


def _flip(data: bytes, _: bytes, rng: Random) -> bytes:
    if not data:
        return data
    at = rng.randrange(len(data))
    return data[:at] + bytes([data[at] ^ 1 << rng.randrange(8)]) + data[at + 1 :]


def _overwrite(data: bytes, _: bytes, rng: Random) -> bytes:
    begin, end = _place(data, rng)
    return (
        data[:begin]
        + rng.choice((rng.randbytes(end - begin), b"\xff" * (end - begin), bytes(end - begin)))
        + data[end:]
    )


def _remove(data: bytes, _: bytes, rng: Random) -> bytes:
    begin, end = _place(data, rng)
    return data[:begin] + data[end:]


def _cut(data: bytes, _: bytes, rng: Random) -> bytes:
    return data[: rng.randrange(len(data) + 1)]


def _repeat(data: bytes, _: bytes, rng: Random) -> bytes:
    begin, end = _place(data, rng)
    return data[:begin] + data[begin:end] * rng.choice((2, 3, 50)) + data[end:]


def _insert(data: bytes, _: bytes, rng: Random) -> bytes:
    begin, end = _place(data, rng)
    return data[:begin] + rng.choice(WORDS) + data[rng.choice((begin, end)) :]


def _splice(data: bytes, other: bytes, rng: Random) -> bytes:
    return data[: rng.randrange(len(data) + 1)] + other[rng.randrange(len(other) + 1) :]


def _number(data: bytes, _: bytes, rng: Random) -> bytes:
    """Another number in the place of one that is written out."""
    places = [match.span() for match in re.finditer(rb"-?\d+(\.\d+)?", data[:20_000])]
    if not places:
        return _overwrite(data, b"", rng)
    begin, end = rng.choice(places)
    return data[:begin] + rng.choice(NUMBERS) + data[end:]


def _swap(data: bytes, _: bytes, rng: Random) -> bytes:
    """Two lines, or other pieces, change places."""
    sign = rng.choice((b"\n", b",", b'"', b" "))
    pieces = data.split(sign)
    i, j = rng.randrange(len(pieces)), rng.randrange(len(pieces))
    pieces[i], pieces[j] = pieces[j], pieces[i]
    return sign.join(pieces)


CHANGES = (_flip, _overwrite, _remove, _cut, _repeat, _insert, _insert, _splice, _number, _number, _swap)
