from collections.abc import Callable

import pytest
from hypothesis import given
from hypothesis import strategies as st

from authorizerd.acl.audit.line import AuditLevel
from authorizerd.acl.model import ResourceType
from authorizerd.config.values import (
    IntegerParser,
    authorizer_class,
    base_url,
    boolean,
    parse_audit_level,
    parse_principals,
    path,
    paths,
    reject,
    resource_types,
    security_protocols,
    some_words,
    subject_types,
    trim,
    words,
)
from tests.config.properties_file import reason

STANDARD = "org.apache.kafka.metadata.authorizer.StandardAuthorizer"


def test_trimming_is_javas() -> None:
    """It removes control characters and spaces, but keeps no-break spaces."""
    assert trim(" \t\x00\x1fa b\n ") == "a b"
    assert trim("\xa0a\u2003") == "\xa0a\u2003"


@given(st.integers(-300, 300))
def test_integer_is_within_its_bounds(number: int) -> None:
    parse = IntegerParser(-7, 250)
    if -7 <= number <= 250:
        assert parse(str(number)) == number
    else:
        assert reason(parse, str(number)) == f"expected an integer from -7 to 250, found '{number}'"


@pytest.mark.parametrize("text", ["x", "1.0", "1_0", "٣", "0x1", "1 0", "--1", "9" * 5000])
def test_integer_has_only_decimal_digits(text: str) -> None:
    assert (
        reason(IntegerParser(0, 100), text) == f"expected an integer from 0 to 100, found '{text}'"
    )
    assert (
        reason(IntegerParser(0, 100), "")
        == "expected an integer from 0 to 100, found an empty value"
    )
    assert IntegerParser(0, 100)("+007") == 7


def test_boolean_is_true_or_false_in_any_case() -> None:
    """Kafka silently reads other texts as false; they are rejected."""
    assert boolean("true") is boolean("TRUE") is boolean("True") is True
    assert boolean("false") is boolean("FaLsE") is False
    for text in ("yes", "1", "on", "tru", "truе"):
        assert reason(boolean, text) == f"expected true or false, found '{text}'"
    assert reason(boolean, "") == "expected true or false, found an empty value"


def test_choice_is_one_of_its_values() -> None:
    assert parse_audit_level("DEBUG") is AuditLevel.DEBUG
    assert reason(parse_audit_level, "debug") == "expected one of INFO, DEBUG, TRACE, found 'debug'"
    assert (
        reason(parse_audit_level, "") == "expected one of INFO, DEBUG, TRACE, found an empty value"
    )


def test_path_is_not_empty_and_has_no_nul() -> None:
    assert path("/a, b/ü") == "/a, b/ü"
    assert reason(path, "") == "expected a path, found an empty value"
    assert reason(path, "/a\0") == "expected a path without NUL characters, found '/a\0'"
    assert paths("/a , /b") == ("/a", "/b")
    assert reason(paths, "") == "expected at least one entry, found an empty value"
    assert reason(paths, "/a,") == "entry 2 of the comma-separated list is empty"
    assert reason(paths, "/a,/\0b") == "expected a path without NUL characters, found '/\0b'"


def test_comma_list_has_no_empty_entries() -> None:
    """As in Kafka 4.3. Only some keys accept an empty list."""
    assert words("a , b,c") == some_words("a , b,c") == ("a", "b", "c")
    assert words("") == ()
    assert reason(some_words, "") == "expected at least one entry, found an empty value"
    for parse in (words, some_words):
        for text in (",", "a,", ",a", "a, ,b"):
            empty = [entry.strip() for entry in text.split(",")].index("") + 1
            assert reason(parse, text) == f"entry {empty} of the comma-separated list is empty"


@pytest.mark.parametrize(("text", "principals"), [
    ("", set()),
    (" ; ;", set()),
    ("User:a", {"User:a"}),
    (" User:a ;;User:b; ", {"User:a", "User:b"}),
    ("User:CN=a,OU=b;Group:x:y", {"User:CN=a,OU=b", "Group:x:y"}),
    ("User : a ", {"User : a"}),
    ("User:a\xa0", {"User:a\xa0"}),
    ("User:*", {"User:*"}),
    ("User:a;User:a", {"User:a"}),
])  # fmt: skip
def test_only_semicolons_separate_super_users(text: str, principals: set[str]) -> None:
    """Blanks around an entry and empty entries are ignored."""
    assert parse_principals(text) == principals


@pytest.mark.parametrize(("text", "entry"), [
    ("User:a;b", "b"),
    ("alice", "alice"),
    ("alice,bob", "alice,bob"),
    ("User:a; User: ", "User:"),
    (":a", ":a"),
    ("User:x;:", ":"),
])  # fmt: skip
def test_super_user_without_type_or_name_is_rejected(text: str, entry: str) -> None:
    assert reason(parse_principals, text) == (
        f"invalid entry '{entry}': expected Type:name (semicolons separate the entries)"
    )


def test_authorizer_is_a_class_name_or_empty() -> None:
    """The error for Kafka's old classes names the replacement."""
    for name in (STANDARD, "mine.Authorizer", "com.example.mine.Authorizer", ""):
        assert authorizer_class(name) == name
    for name in (
        "kafka.security.authorizer.AclAuthorizer",
        "kafka.security.auth.SimpleAclAuthorizer",
    ):
        assert reason(authorizer_class, name) == (
            f"{name} requires ZooKeeper: use {STANDARD} instead"
        )
    for name in ("Mine", ".Mine", "mine.", "mine..Mine", "mine/Mine", "mine.1"):
        assert reason(authorizer_class, name) == (f"expected module.Class, found '{name}'")


def test_rejected_key_gives_its_reason() -> None:
    """Some keys accept an empty value as unset."""
    assert reason(reject("no"), "x") == reason(reject("no"), "") == "no"
    assert reason(reject("no", unless_empty=True), "x") == "no"
    reject("no", unless_empty=True)("")


def test_security_protocols_become_upper_case() -> None:
    """The last colon separates."""
    assert security_protocols("internal:ssl, a:b : Sasl_Plaintext") == {
        "INTERNAL": "SSL",
        "A:B": "SASL_PLAINTEXT",
    }
    assert security_protocols("") == {}


@pytest.mark.parametrize(("parse", "text", "expected"), [
    (security_protocols, "A", "invalid entry 'A': expected NAME:PROTOCOL"),
    (security_protocols, "A:", "invalid entry 'A:': expected NAME:PROTOCOL"),
    (security_protocols, ":SSL", "invalid entry ':SSL': expected NAME:PROTOCOL"),
    (security_protocols, "A:SSL,,B:SSL", "entry 2 of the comma-separated list is empty"),
    (security_protocols, "A:SSL,a:SSL", "A is mapped twice"),
    (security_protocols, "A:PLAINTXT",
     "expected one of PLAINTEXT, SSL, SASL_PLAINTEXT, SASL_SSL, found 'PLAINTXT'"),
    (subject_types, "", "expected at least one type=PrincipalType, found an empty value"),
    (subject_types, "user", "invalid entry 'user': expected type=PrincipalType"),
    (subject_types, "user=", "invalid entry 'user=': expected type=PrincipalType"),
    (subject_types, "=User", "invalid entry '=User': expected type=PrincipalType"),
    (subject_types, "user=User,", "entry 2 of the comma-separated list is empty"),
    (subject_types, "user=User,user=Group", "user is mapped twice"),
    (subject_types, "user=User:x", "invalid principal type 'User:x': expected no colon"),
    (resource_types, "", "expected at least one type=RESOURCE_TYPE, found an empty value"),
    (resource_types, "topic", "invalid entry 'topic': expected type=RESOURCE_TYPE"),
    (resource_types, "topic=TOPIC,Topic=GROUP", "topic is mapped twice"),
    *(
        (
            resource_types,
            f"x={name}",
            f"invalid resource type '{name}': expected one of TOPIC, GROUP, CLUSTER,"
            " TRANSACTIONAL_ID, DELEGATION_TOKEN, USER",
        )
        for name in ("ANY", "UNKNOWN", "topic", "QUEUE")
    ),
])  # fmt: skip
def test_bad_mapping_is_rejected(parse: Callable[[str], object], text: str, expected: str) -> None:
    """No question can have the resource type ANY or UNKNOWN."""
    assert reason(parse, text) == expected


@pytest.mark.parametrize(
    "text", ["", "https://pdp.example", "http://[::1]:8181", "https://gw.example:443/kafka/a-b"]
)
def test_base_url_is_kept_as_it_is(text: str) -> None:
    assert base_url(text) == text


@pytest.mark.parametrize("text", [
    "pdp.example", "ftp://a", "https://", "https://a/", "https://a?b", "https://a/#b",
    "https://a b",
])  # fmt: skip
def test_base_url_that_paths_cannot_follow_is_rejected(text: str) -> None:
    assert "HOST[:PORT]" in reason(base_url, text)


def test_subject_types_are_case_sensitive() -> None:
    """The last equals sign separates."""
    assert subject_types("user=User, Team = Group,urn:a=b=User") == {
        "user": "User",
        "Team": "Group",
        "urn:a=b": "User",
    }


def test_resource_types_have_lower_case_names() -> None:
    types = resource_types("Topic=TOPIC,stream = TOPIC,user=USER")
    assert types == {"topic": 2, "stream": 2, "user": 7}
    assert isinstance(types["topic"], ResourceType)
