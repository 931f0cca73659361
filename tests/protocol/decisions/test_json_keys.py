"""JSON texts in which a key occurs twice in an object, compared with Python's own reader."""

import json
from contextlib import suppress

import pytest
from hypothesis import given
from hypothesis import strategies as st

from authorizerd.protocol.decisions.json_keys import (
    QUESTION_BYTES_MAX,
    JsonKeysError,
    check_keys,
    check_keys_around,
)

ARRAY = "evaluations"

characters = st.sampled_from('ab:"\\{,é')
blanks = st.sampled_from(["", "", " ", "\n\t"])


@st.composite
def strings(draw: st.DrawFn) -> str:
    """Return a JSON string of few characters, each of them plain or escaped."""
    text = draw(st.text(characters, max_size=3))
    return '"' + "".join(draw(st.sampled_from(spellings(one))) for one in text) + '"'


def spellings(character: str) -> list[str]:
    escaped = [f"\\u{ord(character):04x}", f"\\u{ord(character):04X}"]
    if character in '"\\':
        return [*escaped, f"\\{character}"]
    return [character, character, *escaped]


@st.composite
def objects(draw: st.DrawFn, values: st.SearchStrategy[str]) -> str:
    members = draw(st.lists(st.tuples(blanks, strings(), blanks, values), max_size=4))
    return "{" + ",".join(f"{a}{key}{b}:{value}{b}" for a, key, b, value in members) + "}"


scalars = st.sampled_from(["null", "true", "1", "-1.5e3", "1e999", "9" * 30]) | strings()
texts = st.recursive(
    scalars,
    lambda values: (
        objects(values) | st.lists(values, max_size=3).map(lambda items: f"[{','.join(items)}]")
    ),
    max_leaves=12,
)


def repeats_a_key(text: str) -> bool:
    repeated = []

    def look_at(pairs: list[tuple[str, object]]) -> None:
        repeated.append(len(dict(pairs)) < len(pairs))

    json.loads(text, object_pairs_hook=look_at)
    return any(repeated)


def is_rejected(text: str) -> bool:
    try:
        check_keys(text.encode())
    except JsonKeysError as error:
        assert "twice" in str(error)  # noqa: PT017 - either outcome is right
        return True
    return False


@given(texts)
def test_text_is_rejected_exactly_if_a_key_is_repeated(text: str) -> None:
    assert is_rejected(text) == repeats_a_key(text)


@pytest.mark.parametrize(
    "text",
    [
        '{"id":"bob","id":"alice"}', '{"id":"bob","\\u0069d":"alice"}', '{"a:":1,"a\\u003A":2}',
        '{"a":1,"a":"\\u003a"}', '{"a":1,"a":"\\\\u003a"}', '{"a":[{"b":{"c":1,"d":2,"c":3}}]}',
        '{"a" : 1 , "a"\n:\t1}', '{"":1,"":2}', '{"a":1e999,"a":1}',
        '{"n":' + "9" * 5000 + ',"a":1,"a":1}',
    ],
)  # fmt: skip
def test_repeated_key_is_found(text: str) -> None:
    """Despite escapes, blanks, depth and numbers out of range."""
    assert is_rejected(text)


def test_error_names_the_repeated_key() -> None:
    with pytest.raises(JsonKeysError, match="the key 'id' occurs twice in an object"):
        check_keys(b'{"a":{"type":0,"id":1,"id":2}}')


@pytest.mark.parametrize(
    "text",
    [
        '{"id":"a:b::c","type":":"}',
        '{"a":{"a":{"a":1}}}',
        '[{"a":1},{"a":1}]',
        '{"a":"\\u003a\\"a\\":","b":"\\"b\\":"}',
        '{"a":1,"A":2,"\\u0061b":3}',
        '{"a":1e999,"b":' + "9" * 5000 + "}",
    ],
)
def test_text_without_a_repeated_key_is_accepted(text: str) -> None:
    """Different objects may have equal keys, and strings may contain colons."""
    assert not is_rejected(text)


@pytest.mark.parametrize("key", [b"\xed\xa0\x80", b"\xff", b"\xc0\xa2"])
def test_key_that_is_not_utf8_is_rejected(key: bytes) -> None:
    """Half of a surrogate pair, too, which Python's reader would accept from bytes."""
    with pytest.raises(JsonKeysError, match="malformed"):
        check_keys(b'{"%b":1}' % key)
    with pytest.raises(JsonKeysError, match="malformed"):
        check_keys(b'{"a":{"%b":1},"b":"\\u003a"}' % key)


@given(st.binary(max_size=40))
def test_any_bytes_are_accepted_or_rejected(text: bytes) -> None:
    with suppress(JsonKeysError):
        check_keys(text)


@pytest.mark.parametrize("text", [b'{"a":' * 9000, b"[" * 9000 + b"1e999" + b"]" * 9000])
def test_deep_nesting_is_rejected(text: bytes) -> None:
    with pytest.raises(JsonKeysError):
        check_keys(text)


def test_question_above_the_limit_is_rejected() -> None:
    text = b'{"a":"%b"}' % (b"x" * (QUESTION_BYTES_MAX - len('{"a":""}')))
    check_keys(text)
    with pytest.raises(
        JsonKeysError, match=f"at most {QUESTION_BYTES_MAX} bytes, found {len(text) + 1}"
    ):
        check_keys(text + b" ")


members = st.lists(st.tuples(strings(), texts), max_size=3)


@given(members, st.lists(texts, max_size=3), members)
def test_object_is_checked_around_its_array(
    before: list[tuple[str, str]], items: list[str], after: list[tuple[str, str]]
) -> None:
    """The array's reader checks the array."""

    def around(inner: str) -> str:
        parts = [*before, (f'"{ARRAY}"', f"[{inner}]"), *after]
        return "{" + ", ".join(f"{key} :{value}" for key, value in parts) + "}"

    text = around(",".join(items))
    try:
        check_keys_around(ARRAY, len(f"[{','.join(items)}]"), text.encode())
        is_sound = True
    except JsonKeysError as error:
        is_sound = False
        if "contains a colon" in str(error):
            keys = [json.loads(key) for key, _ in (*before, *after)]
            assert any(":" in key for key in keys)
            return
    assert is_sound != repeats_a_key(around(""))


@pytest.mark.parametrize(
    "text",
    [
        '{"evaluations":[{}],"evaluations":[{}]}',
        '{"evaluations":[{}],"\\u0065valuations":[{}]}',
        '{"evaluations":[],"evaluations":[{}]}',
        '{"subject":{"id":"a"},"evaluations":[{}],"subject":{"id":"b"}}',
        '{"subject":{"id":"a","id":"b"},"evaluations":[{}]}',
        '{"options":{"a":1,"a":2},"evaluations":[{}]}',
        '{"a:":1,"\\u0061\\u003a":2,"evaluations":[]}',
    ],
)
def test_repeated_key_around_the_array_is_found(text: str) -> None:
    """This includes the array's own key."""
    with pytest.raises(JsonKeysError):
        check_keys_around(ARRAY, 2, text.encode())


def test_array_may_be_longer_than_a_question() -> None:
    items = ",".join(['{"a":"b:c"}'] * QUESTION_BYTES_MAX)
    check_keys_around(ARRAY, len(items) + 2, f'{{"evaluations":[{items}],"a":1}}'.encode())
    with pytest.raises(JsonKeysError, match="at most"):
        check_keys_around(ARRAY, 2, f'{{"evaluations":[],"a":[{items}]}}'.encode())


def test_fractions_are_not_computed(monkeypatch: pytest.MonkeyPatch) -> None:
    """Some would take a hundred times as long. One out of range would fail if it were computed."""

    def read_again(*args: object, **options: object) -> None:
        raise AssertionError("the quick reader stumbled")

    monkeypatch.setattr(json, "loads", read_again)
    check_keys(b'{"a":[2.2250738585072011e-308,1e999,-1.5E-999],"b":1}')
