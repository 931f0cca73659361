"""The descriptions of faults in JSON documents."""

import enum
from typing import Annotated

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from authorizerd.protocol.json_faults import JSON_ERRORS, describe_json_fault


class Colour(enum.Enum):
    RED = "red"
    BLUE = "blue"


class Inner(msgspec.Struct):
    name: str
    count: Annotated[int, msgspec.Meta(ge=0, le=9)] = 0
    colour: Colour = Colour.RED
    items: list[str] | None = None


class Outer(msgspec.Struct):
    inner: Inner | None = None


def fault(body: bytes) -> str | None:
    try:
        msgspec.json.Decoder(Outer).decode(body)
    except JSON_ERRORS as error:
        return describe_json_fault(error, (colour.value for colour in Colour))
    return None


@pytest.mark.parametrize(
    ("body", "text"),
    [
        (b"", "invalid JSON: the body ends before the document does"),
        (b'{"inner"', "invalid JSON: the body ends before the document does"),
        (b"{x}", "invalid JSON: object keys must be strings (byte 1)"),
        (b'{"inner":{"name":""}}}', "invalid JSON: trailing characters (byte 22)"),
        (b'{"a":"\xff"}', None),
        (b'{"inner":{"name":"\xff"}}', "invalid JSON: it is not UTF-8"),
        (b'{"a":' + b"[" * 99_999, "invalid JSON: it is nested too deeply"),
        (b"[]", "expected an object, found an array"),
        (b'{"inner":5}', "inner: expected an object, found an integer"),
        (b'{"inner":{}}', "inner.name is missing"),
        (b'{"inner":{"name":null}}', "inner.name: expected a string, found null"),
        (b'{"inner":{"name":"","items":[1]}}',
         "inner.items[0]: expected a string, found an integer"),
        (b'{"inner":{"name":"","items":{}}}', "inner.items: expected an array, found an object"),
        (b'{"inner":{"name":"","count":-1}}', "inner.count: expected an integer of at least 0"),
        (b'{"inner":{"name":"","count":10}}', "inner.count: expected an integer of at most 9"),
        (b'{"inner":{"name":"","colour":"a`\\n"}}',
         "inner.colour: unknown value 'a`\\n': expected one of red, blue"),
    ],
)  # fmt: skip
def test_fault_names_field_expectation_and_finding(body: bytes, text: str | None) -> None:
    assert fault(body) == text


@given(
    st.recursive(
        st.none()
        | st.booleans()
        | st.integers()
        | st.floats(allow_nan=False)
        | st.text("aé\n\x9b`'", max_size=300),
        lambda inner: (
            st.lists(inner)
            | st.dictionaries(st.sampled_from(("inner", "name", "count", "colour", "items")), inner)
        ),
    ),
    st.integers(0, 30),
)
def test_texts_of_the_decoder_are_never_shown(value: object, cut: int) -> None:
    """One printable line of limited length, without backquotes and ``$`` paths."""
    body = msgspec.json.encode(value)
    for text in (fault(body), fault(body[:cut])):
        if text is not None:
            assert text.isprintable()
            assert len(text) < 400
            assert "Expected" not in text
            assert "$." not in text
            assert "truncated" not in text
