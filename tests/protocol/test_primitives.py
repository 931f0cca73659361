"""Kafka's primitive types."""

from collections.abc import Callable

import pytest
from hypothesis import given
from hypothesis import strategies as st

from authorizerd.protocol.errors import DecodeError
from authorizerd.protocol.primitives import (
    VARLONG_BITS,
    WireReader,
    compact_string,
    unsigned_varint,
    varint,
)
from tests.support.strategies import texts

Read = Callable[[WireReader], object]

tagged_fields = st.dictionaries(st.integers(0, 2**32 - 1), st.binary(max_size=200), max_size=4)


def reader(data: bytes) -> WireReader:
    return WireReader(data, 0, len(data))


def encode_tagged_fields(fields: list[tuple[int, bytes]]) -> bytes:
    pieces = [unsigned_varint(tag) + unsigned_varint(len(value)) + value for tag, value in fields]
    return unsigned_varint(len(fields)) + b"".join(pieces)


def refusal(data: bytes, read: Read) -> DecodeError:
    with pytest.raises(DecodeError) as refused:
        read(reader(data))
    return refused.value


def test_decode_error_has_reason_and_position() -> None:
    error = DecodeError("magic 7", 16)
    assert str(error) == "magic 7 (at byte 16)"
    assert (error.reason, error.position) == ("magic 7", 16)


@pytest.mark.parametrize(
    ("encoded", "unsigned", "signed"),
    [("00", 0, 0), ("01", 1, -1), ("02", 2, 1), ("7f", 127, -64), ("8001", 128, 64),
     ("ac02", 300, 150), ("ffffffff0f", 2**32 - 1, -(2**31)), ("feffffff0f", 2**32 - 2, 2**31 - 1)],
)  # fmt: skip
def test_varints_are_those_of_protocol_buffers(encoded: str, unsigned: int, signed: int) -> None:
    data = bytes.fromhex(encoded)
    assert reader(data).unsigned_varint("n") == unsigned
    assert reader(data).varint("n") == signed
    assert unsigned_varint(unsigned) == varint(signed) == data


@given(st.integers(-(2**63), 2**63 - 1))
def test_varlong_reads_back(number: int) -> None:
    """It has at most ten bytes."""
    found = reader(varint(number))
    assert found.varint("n", VARLONG_BITS) == number
    assert not found.remaining


@pytest.mark.parametrize("encoded", ["ffffffff10", "808080808000", "ffffffffffffffffffff01"])
def test_varint_of_more_than_32_bits_is_rejected(encoded: str) -> None:
    data = bytes.fromhex(encoded)
    assert "exceeds 32 bits" in refusal(data, lambda r: r.unsigned_varint("n")).reason
    assert "exceeds 32 bits" in refusal(data, lambda r: r.varint("n")).reason


def test_varlong_of_more_than_64_bits_is_rejected() -> None:
    error = refusal(b"\xff" * 9 + b"\x02", lambda r: r.varint("n", VARLONG_BITS))
    assert error.reason == "n: the varint exceeds 64 bits"
    assert error.position == 0


@given(st.integers(-128, 127), st.integers(-(2**15), 2**15 - 1))
def test_integers_are_big_endian_and_signed(small: int, large: int) -> None:
    found = reader(small.to_bytes(1, "big", signed=True) + large.to_bytes(2, "big", signed=True))
    assert (found.int8("n"), found.int16("n")) == (small, large)
    found.expect_end("both")


@given(st.none() | texts | st.integers(120, 300).map("é".__mul__))
def test_compact_string_reads_back(text: str | None) -> None:
    """Its size is stored plus one, so that 0 is null."""
    found = reader(compact_string(text))
    assert found.compact_nullable_string("s") == text
    assert not found.remaining


def test_null_string_is_rejected_by_field() -> None:
    assert refusal(b"\0", lambda r: r.compact_string("host")).reason == (
        "host: expected a string, found null"
    )
    assert reader(b"\1").compact_string("host") == ""


@pytest.mark.parametrize("encoded", [b"\xff", b"\xc0\x80", b"\xed\xa0\x80", b"\xc3"])
def test_invalid_utf8_is_rejected_at_its_position(encoded: bytes) -> None:
    """This includes overlong forms and surrogates, which would give a name a second spelling."""
    error = refusal(
        unsigned_varint(len(encoded) + 3) + b"ab" + encoded, lambda r: r.compact_string("s")
    )
    assert str(error) == "s: not UTF-8 (at byte 3)"


@given(tagged_fields)
def test_tagged_fields_read_back(fields: dict[int, bytes]) -> None:
    found = reader(encode_tagged_fields(sorted(fields.items())))
    assert found.tagged_fields() == fields
    assert not found.remaining


@pytest.mark.parametrize("tags", [[0, 0], [1, 0], [3, 7, 7], [3, 7, 5]])
def test_tags_must_ascend(tags: list[int]) -> None:
    data = encode_tagged_fields([(tag, b"") for tag in tags])
    assert refusal(data, WireReader.tagged_fields).reason == f"tag {tags[-1]} is out of order"


@pytest.mark.parametrize(
    ("data", "read"),
    [
        (b"\x7f", lambda r: r.int8("n")),
        (b"\x7f\x7f", lambda r: r.int16("n")),
        (b"\xff\xff\xff\xff\x0f", lambda r: r.varint("n")),
        (b"\xff" * 9 + b"\x01", lambda r: r.varint("n", VARLONG_BITS)),
        (compact_string("a name"), lambda r: r.compact_string("s")),
        (compact_string("x" * 200), lambda r: r.compact_nullable_string("s")),
        (encode_tagged_fields([(0, b"x"), (1, b"yz" * 80)]), WireReader.tagged_fields),
        (b"four", lambda r: r.take(4, "four")),
    ],
)
def test_nothing_is_read_past_the_end(data: bytes, read: Read) -> None:
    """This holds even if the buffer is longer than the given end."""
    read(reader(data))
    for end in range(len(data)):
        refusal(data[:end], read)
        with pytest.raises(DecodeError):
            read(WireReader(data, 0, end))


def test_surplus_bytes_are_counted_and_located() -> None:
    found = reader(b"\1\2\3")
    found.int8("n")
    with pytest.raises(DecodeError, match=r"record: 2 bytes too many \(at byte 1\)"):
        found.expect_end("record")


def test_size_beyond_the_end_is_rejected() -> None:
    assert str(refusal(b"\x09abc", lambda r: r.compact_string("host"))) == (
        "host: 8 bytes announced, 3 left (at byte 1)"
    )
