"""Make a new input of earlier ones: flip, cut, splice, and write the values at which readers fail.

The same random numbers give the same input.
"""

import re
from collections.abc import Callable, Sequence
from random import Random
from typing import Final, TypeAlias

INPUT_BYTES_MAX: Final = 16 * 1024
MUTATIONS_MAX: Final = 5
LONG_REPEATS: Final = (40, 150, 1500)

_INTEGERS: Final = (-1, 0, 1, 0x7F, 0x80, 0xFF, 0x7FFF, 0x8000, 0xFFFF, 0x7FFFFFFF, 0x80000000)
_VARINTS: Final = (b"\xff\xff\xff\xff\x0f", b"\x80\x80\x80\x80\x08", b"\xff" * 10, b"\x80\x00")
_NUMBERS: Final = (
    *(b"0", b"-1", b"00", b"1e999", b"-0.0", b"NaN", b"0x7f", b"1_0"),
    *(b"%d" % (2**bits + more) for bits in (31, 32, 63, 64) for more in (-1, 0)),
    b"9" * 5000,
)
_NESTS: Final = (
    *((b"[", b"]"), (b'{"a":', b"}"), (b"(", b")"), (b"\x91", b""), (b"- ", b"")),
    *((b"{a: ", b"}"), (b"\x30\x80", b"\0\0"), (b"\\", b""), (b"&a [*a, ", b"]")),
)
_SPECIAL: Final = (
    *(b"\0", b"\n", b"\r\n", b"\r\n\r\n", b"\t", b" ", b'"', b"'", b"\\", b"\\u0000", b"\\ud800"),
    *(b"\xff", b"\xc0\x80", b"\xed\xa0\x80", b"\xef\xbb\xbf", b"\xe2\x80\xa8", b"\xe2\x80\xae"),
    *(b":", b",", b"=", b"/", b"*", b"%00", b"${a}", b"\x1b[31m", b"\xc2\x85", b"\xf0\x9f\x98\x80"),
)
_NUMBER: Final = re.compile(rb"-?\d+")
_TOKEN: Final = re.compile(rb"\w+|\s+|[^\w\s]")

Mutation: TypeAlias = Callable[[Random, bytes, Sequence[bytes]], bytes]


def mutate(
    random: Random, data: bytes, others: Sequence[bytes], words: Sequence[bytes] = ()
) -> bytes:
    """Return ``data`` after one to ``MUTATIONS_MAX`` mutations, at most ``INPUT_BYTES_MAX`` long.

    Args:
        others: inputs whose parts may replace parts of it; at least one.
        words: texts with a meaning for the reader.
    """
    for _ in range(random.randint(1, MUTATIONS_MAX)):
        if words and random.random() < 0.2:
            data = _replace(random, data, random.choice(words))
        else:
            data = random.choice(_MUTATIONS)(random, data, others)
        if random.random() < 0.4:
            break
    return data[:INPUT_BYTES_MAX]


def _place(random: Random, data: bytes) -> int:
    return random.randint(0, len(data))


def _range(random: Random, data: bytes) -> tuple[int, int]:
    """Return the bounds of a part of ``data``, usually a short one."""
    start = _place(random, data)
    size = min(random.choice((0, 1, 1, 2, 4, 8, 30, 300)), len(data) - start)
    return start, start + size


def _replace(random: Random, data: bytes, new: bytes) -> bytes:
    start, end = _range(random, data)
    return data[:start] + new + data[end:]


def _flip_bit(random: Random, data: bytes, others: Sequence[bytes]) -> bytes:
    if not data:
        return data
    place = random.randrange(len(data))
    return data[:place] + bytes((data[place] ^ 1 << random.randrange(8),)) + data[place + 1 :]


def _set_byte(random: Random, data: bytes, others: Sequence[bytes]) -> bytes:
    place = _place(random, data)
    return data[:place] + bytes((random.randrange(256),)) + data[place + 1 :]


def _truncate(random: Random, data: bytes, others: Sequence[bytes]) -> bytes:
    return data[: _place(random, data)]


def _remove(random: Random, data: bytes, others: Sequence[bytes]) -> bytes:
    return _replace(random, data, b"")


def _insert_noise(random: Random, data: bytes, others: Sequence[bytes]) -> bytes:
    return _replace(random, data, random.randbytes(random.choice((1, 2, 4, 20))))


def _repeat(random: Random, data: bytes, others: Sequence[bytes]) -> bytes:
    start, end = _range(random, data)
    times = random.choice((1, 1, 2, 3, *LONG_REPEATS))
    return data[:end] + data[start:end] * times + data[end:]


def _splice(random: Random, data: bytes, others: Sequence[bytes]) -> bytes:
    other = random.choice(others)
    return data[: _place(random, data)] + other[_place(random, other) :]


def _copy_part(random: Random, data: bytes, others: Sequence[bytes]) -> bytes:
    other = random.choice(others)
    start, end = _range(random, other)
    return _replace(random, data, other[start:end])


def _write_limit(random: Random, data: bytes, others: Sequence[bytes]) -> bytes:
    """Overwrite bytes, perhaps a length, by a number at the limit of its type."""
    size = random.choice((1, 2, 4, 8))
    number = random.choice((*_INTEGERS, len(data), len(data) + 1))
    encoded = (number % (1 << 8 * size)).to_bytes(size, random.choice(("big", "big", "little")))
    place = _place(random, data)
    return data[:place] + encoded + data[place + size :]


def _write_varint(random: Random, data: bytes, others: Sequence[bytes]) -> bytes:
    return _replace(random, data, random.choice(_VARINTS))


def _change_number(random: Random, data: bytes, others: Sequence[bytes]) -> bytes:
    """Replace a number in decimal digits."""
    found = [*_NUMBER.finditer(data[: 1 << 12])]
    if not found:
        return data
    match = random.choice(found)
    return data[: match.start()] + random.choice(_NUMBERS) + data[match.end() :]


def _insert_special(random: Random, data: bytes, others: Sequence[bytes]) -> bytes:
    return _replace(random, data, random.choice(_SPECIAL))


def _nest(random: Random, data: bytes, others: Sequence[bytes]) -> bytes:
    """Put a part, perhaps a whole value, into many brackets."""
    opening, closing = random.choice(_NESTS)
    start, end = _range(random, data)
    depth = random.choice((1, 2, *LONG_REPEATS))
    return data[:start] + opening * depth + data[start:end] + closing * depth + data[end:]


def _move_tokens(random: Random, data: bytes, others: Sequence[bytes]) -> bytes:
    """Replace, repeat, remove or swap words of a text."""
    tokens = _TOKEN.findall(data[: 1 << 12])
    if len(tokens) < 2:
        return data
    one, other = random.randrange(len(tokens)), random.randrange(len(tokens))
    match random.randrange(4):
        case 0:
            tokens[one] = tokens[other]
        case 1:
            tokens.insert(one, tokens[other])
        case 2:
            del tokens[one]
        case _:
            tokens[one], tokens[other] = tokens[other], tokens[one]
    return b"".join(tokens) + data[1 << 12 :]


_MUTATIONS: Final[tuple[Mutation, ...]] = (
    *(_flip_bit, _set_byte, _truncate, _remove, _insert_noise, _repeat, _splice, _copy_part),
    *(_write_limit, _write_limit, _write_varint, _change_number, _insert_special, _nest),
    *(_move_tokens, _move_tokens),
)
