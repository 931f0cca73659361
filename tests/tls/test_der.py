import pytest
from hypothesis import given
from hypothesis import strategies as st

from authorizerd.tls.der import SEQUENCE, object_identifier_text, read_element, read_elements
from authorizerd.tls.errors import InvalidDerError


def test_elements_have_their_tag_content_and_encoding() -> None:
    long = b"\x04\x81\x80" + b"x" * 128
    first, second = read_elements(b"\x02\x01\x05" + long)
    assert (first.tag, first.content, first.encoded) == (2, b"\5", b"\x02\x01\x05")
    assert (second.tag, second.content, second.encoded) == (4, b"x" * 128, long)


@pytest.mark.parametrize(
    "encoded",
    [
        "30", "3001", "300200", "3080", "30800000", "3081", "308100", "30817f" + "00" * 127,
        "30820001", "3082", "308500000000ff", "30ff", "1f8101", "3f01",
    ],
)  # fmt: skip
def test_malformed_element_is_rejected(encoded: str) -> None:
    with pytest.raises(InvalidDerError):
        list(read_elements(bytes.fromhex(encoded)))


@pytest.mark.parametrize("encoded", ["", "3100", "300000", "30003000"])
def test_anything_but_one_element_of_the_tag_is_rejected(encoded: str) -> None:
    with pytest.raises(InvalidDerError):
        read_element(bytes.fromhex(encoded), SEQUENCE)


@pytest.mark.parametrize(
    ("content", "text"),
    [
        ("550403", "2.5.4.3"), ("00", "0.0"), ("27", "0.39"), ("28", "1.0"), ("4f", "1.39"),
        ("50", "2.0"), ("8837", "2.999"), ("2a864886f70d010901", "1.2.840.113549.1.9.1"),
    ],
)  # fmt: skip
def test_object_identifier_is_written_in_decimals(content: str, text: str) -> None:
    assert object_identifier_text(bytes.fromhex(content)) == text


@pytest.mark.parametrize("content", [b"", b"\x80", b"\x55\x84", b"\x55\x80\x01", b"\x01" * 257])
def test_invalid_object_identifier_is_rejected(content: bytes) -> None:
    with pytest.raises(InvalidDerError, match="object identifier"):
        object_identifier_text(content)


@given(st.binary(max_size=40))
def test_any_data_gives_all_its_elements_or_an_error(data: bytes) -> None:
    try:
        elements = list(read_elements(data))
    except InvalidDerError:
        return
    assert b"".join(each.encoded for each in elements) == data
