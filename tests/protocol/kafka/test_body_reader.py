"""Kafka's types in requests: as lenient as Kafka's readers, and limited."""

from collections.abc import Callable
from uuid import UUID

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from authorizerd.protocol.errors import DecodeError
from authorizerd.protocol.kafka.body_reader import (
    ARRAY_ITEMS_MAX,
    STRING_BYTES_MAX,
    TAGS_MAX,
    BodyReader,
    array_length,
    byte_string,
    nullable_byte_string,
    nullable_string,
    string,
)
from tests.support.strategies import texts

some_examples = settings(max_examples=30)
both_kinds = pytest.mark.parametrize("flexible", [False, True], ids=["legacy", "flexible"])


def reader(data: bytes, *, flexible: bool = True) -> BodyReader:
    return BodyReader(data, flexible=flexible)


def of_hex(text: str, *, flexible: bool = True) -> BodyReader:
    return reader(bytes.fromhex(text), flexible=flexible)


def _end(body: BodyReader, _: str) -> None:
    body.end_structure()


@both_kinds
@some_examples
@given(texts | st.integers(126, 130).map("x".__mul__) | st.just("ü" * 300))
@example("x" * STRING_BYTES_MAX)
@example("")
def test_string_reads_back(flexible: bool, text: str) -> None:
    written = string(text, flexible=flexible)
    assert reader(written, flexible=flexible).string("name") == text
    assert nullable_string(text, flexible=flexible) == written


@both_kinds
def test_null_reads_back_if_nullable(flexible: bool) -> None:
    text = reader(nullable_string(None, flexible=flexible), flexible=flexible)
    assert text.nullable_string("name") is None
    array = reader(array_length(None, flexible=flexible), flexible=flexible)
    assert array.nullable_array_length("items") is None


@pytest.mark.parametrize(
    ("data", "flexible", "read", "reason"),
    [
        ("00", True, BodyReader.string, "x: expected a string, found null"),
        ("ffff", False, BodyReader.string, "x: expected a string, found null"),
        ("00", True, BodyReader.byte_string, "x: expected bytes, found null"),
        ("ffffffff", False, BodyReader.array_length, "x: expected an array, found null"),
        ("fffffffe", False, BodyReader.array_length, "x: expected an array, found null"),
        ("80000000", False, BodyReader.array_length, "x: expected an array, found null"),
        ("7fffffff 00", False, BodyReader.array_length, r"x: \d+ items announced, 1 bytes left"),
        ("00000002 00", False, BodyReader.array_length, r"x: \d+ items announced, 1 bytes left"),
        ("ffffffff0f 00", True, BodyReader.array_length, r"x: \d+ items announced, 1 bytes left"),
        ("03 00", True, BodyReader.array_length, r"x: \d+ items announced, 1 bytes left"),
        ("03 74 ff", True, BodyReader.string, r"x: not UTF-8 \(at byte 2\)"),
        ("818002" + "78" * 0x8000, True, BodyReader.string,
         "x: 32768 bytes announced, 32768 left, 32767 allowed"),
        ("c2843d" + "00" * (ARRAY_ITEMS_MAX + 1), True, BodyReader.array_length,
         "1000001 items exceed the limit of 1000000"),
        ("65" + "0500" * 101, True, _end, "expected at most 100 tagged fields, found 101"),
    ],
    ids=lambda value: value[:12] if isinstance(value, str) else None,
)  # fmt: skip
def test_invalid_value_is_rejected(
    data: str, flexible: bool, read: Callable[[BodyReader, str], object], reason: str
) -> None:
    """Kafka accepts invalid UTF-8 as U+FFFD, and so creates an ACL for another name."""
    with pytest.raises(DecodeError, match=reason):
        read(of_hex(data, flexible=flexible), "x")


def test_any_negative_length_is_null() -> None:
    """Kafka 4.3 accepted a client id of length -2 as null."""
    for length in ("ffff", "fffe", "8000"):
        assert of_hex(length, flexible=False).nullable_string("name") is None
    for length in ("ffffffff", "fffffffe", "80000000"):
        assert of_hex(length, flexible=False).nullable_array_length("items") is None


@both_kinds
def test_too_long_string_is_rejected(flexible: bool) -> None:
    """Kafka closes the connection."""
    with pytest.raises(ValueError, match="found 32768"):
        string("x" * (STRING_BYTES_MAX + 1), flexible=flexible)


@both_kinds
@some_examples
@given(data=st.binary(max_size=300))
def test_bytes_read_back(flexible: bool, data: bytes) -> None:
    """They can be read from any type of buffer."""
    written = byte_string(data, flexible=flexible)
    read = BodyReader(bytearray(written), flexible=flexible).byte_string("token")
    assert read == data
    assert type(read) is bytes


@both_kinds
@some_examples
@given(data=st.none() | st.binary(max_size=300))
def test_nullable_bytes_read_back(flexible: bool, data: bytes | None) -> None:
    written = nullable_byte_string(data, flexible=flexible)
    assert reader(written, flexible=flexible).nullable_byte_string("token") == data


@both_kinds
@some_examples
@given(count=st.integers(0, 500))
def test_array_length_reads_back(flexible: bool, count: int) -> None:
    written = array_length(count, flexible=flexible) + bytes(count)
    assert reader(written, flexible=flexible).array_length("items") == count


def test_integers_are_big_endian_and_signed() -> None:
    assert [of_hex(code).int8("i") for code in ("7f", "80", "ff")] == [127, -128, -1]
    assert [of_hex(code).int16("i") for code in ("7fff", "8000", "0102")] == [32767, -32768, 258]
    assert of_hex("80000000").int32("i") == -(2**31)
    assert of_hex("8000000000000000").int64("i") == -(2**63)


def test_any_nonzero_byte_is_true() -> None:
    """A broker accepted 7 as true."""
    assert [of_hex(byte).boolean("flag") for byte in ("00", "01", "07", "ff")] == [
        False,
        True,
        True,
        True,
    ]


def test_id_of_zeros_is_none() -> None:
    assert reader(bytes(16)).uuid("topic id") is None
    assert reader(bytes(15) + b"\1").uuid("topic id") == UUID(int=1)


def test_tags_may_be_unknown_and_in_any_order() -> None:
    """A broker accepted them out of order and twice."""
    found = of_hex("03 05 01 61 03 00 05 02 62 63")
    assert [(tag, found.buffer[start:end]) for tag, start, end in found.tags()] == [
        (5, b"a"),
        (3, b""),
        (5, b"bc"),
    ]
    assert found.remaining == 0


def test_tagged_field_is_read_within_its_bytes() -> None:
    found = of_hex("01 05 01 61 62 63")
    [(_, start, end)] = found.tags()
    found.enter(start, end)
    with pytest.raises(DecodeError):
        found.int16("too much")
    assert found.remaining == 1


def test_reader_continues_after_a_part() -> None:
    found = of_hex("01 05 02 61 62 63 64")
    [(_, start, end)] = found.tags()
    place = found.enter(start, end)
    assert found.remaining == 2
    found.enter(*place)
    assert (found.remaining, found.int16("next")) == (2, 0x6364)


def test_item_limit_applies_to_the_whole_message() -> None:
    """It counts nested and consecutive arrays, also when a message is read in parts."""
    found = BodyReader(bytes.fromhex("03 03 03") + bytes(3), flexible=True, items_max=5)
    assert (found.array_length("first"), found.array_length("second")) == (2, 2)
    found.enter(2, 6)
    with pytest.raises(DecodeError, match="third: 2 items after 4 others exceed the limit of 5"):
        found.array_length("third")


@pytest.mark.parametrize("data", ["01", "01 05", "01 05 02 61", "01 05 ffffffff0f", "02 05 00"])
def test_tags_are_not_read_past_the_end(data: str) -> None:
    with pytest.raises(DecodeError):
        of_hex(data).end_structure()


def test_maximum_number_of_tags_is_accepted() -> None:
    of_hex("64" + "0500" * TAGS_MAX).end_structure()


def test_structure_that_is_not_flexible_has_no_tags() -> None:
    legacy = of_hex("0a0b", flexible=False)
    legacy.end_structure()
    assert legacy.position == 0


@pytest.mark.parametrize(
    "read",
    [
        lambda reader: reader.int8("x"),
        lambda reader: reader.int16("x"),
        lambda reader: reader.int32("x"),
        lambda reader: reader.int64("x"),
        lambda reader: reader.boolean("x"),
        lambda reader: reader.uuid("x"),
        lambda reader: reader.string("x"),
        lambda reader: reader.byte_string("x"),
        lambda reader: reader.nullable_byte_string("x"),
        lambda reader: reader.array_length("x"),
        lambda reader: reader.end_structure(),
    ],
)
@some_examples
@given(data=st.binary(max_size=20), flexible=st.booleans(), end=st.integers(0, 20))
def test_nothing_is_read_past_the_end(
    read: Callable[[BodyReader], object], data: bytes, flexible: bool, end: int
) -> None:
    """Reading stops at the given end, even if the buffer is longer."""
    end = min(end, len(data))
    bounded = BodyReader(data, flexible=flexible, end=end)
    refused_at = 0
    try:
        read(bounded)
    except DecodeError as error:
        refused_at = error.position
    assert 0 <= refused_at <= end
    assert bounded.position <= end
