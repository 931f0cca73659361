"""What an audit line says about who asked."""

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from authorizerd.acl.audit.caller import (
    CALLER_GROUP,
    AuditedCaller,
    format_caller,
    read_request_id,
    read_traceparent,
    remove_caller,
)

LINE = "x based on rule DefaultDeny (kafka.authorizer.logger)"
TRACE, SPAN = "0af7651916cd43dd8448eb211c80319c", "b7ad6b7169203331"


@pytest.mark.parametrize(
    "value",
    [
        None, b"", b"a b", b"a, b", b"a\tb", b"\x80", b"\xc3\xbc", b"a\n", b"x" * 129,
        b"secret\x1b[0m",
    ],
)  # fmt: skip
def test_request_id_of_another_form_is_left_out(value: bytes | None) -> None:
    assert read_request_id(value) is None


@pytest.mark.parametrize("value", [b"a", b"x" * 128, b"[]%\\,=", b"7f3c-1"])
def test_request_id_is_kept_as_it_was_sent(value: bytes) -> None:
    assert read_request_id(value) == value.decode()


@pytest.mark.parametrize(
    ("value", "is_kept"),
    [
        (f"00-{TRACE}-{SPAN}-01", True),
        (f"01-{TRACE}-{SPAN}-00", True),
        (f"ff-{TRACE}-{SPAN}-01", False),
        (f"00-{'0' * 32}-{SPAN}-01", False),
        (f"00-{TRACE}-{'0' * 16}-01", False),
        (f"00-{TRACE.upper()}-{SPAN}-01", False),
        (f"00-{TRACE}-{SPAN}-01-more", False),
        (f"00-{TRACE}-{SPAN}-01, 00-{TRACE}-{SPAN}-01", False),
        (f"00-{TRACE}-{SPAN}", False),
        (f"00-{TRACE}-{SPAN}-01\n", False),
        ("", False),
    ],
)
def test_traceparent_is_kept_in_its_form_only(value: str, is_kept: bool) -> None:
    """Source: W3C Trace Context, section 3.2."""
    assert read_traceparent(value.encode()) == (value if is_kept else None)


callers = st.builds(
    AuditedCaller,
    st.sampled_from(("token", "certificate", "trusted", "none", "PLAIN", "SCRAM", "forwarded")),
    st.none() | st.text() | st.just(f"User:{LINE} [knownBy=token address=1]"),
    st.sampled_from(("unix", "10.0.0.1", "0:0:0:0:0:0:0:1", "fe80::1%2", "***")),
    st.none() | st.text("![]%\\,=a", min_size=1, max_size=128),
    st.none() | st.just(f"00-{TRACE}-{SPAN}-01"),
)


@given(callers, st.sampled_from(("", " [sampleRate=0.01]", " [sampleRate=1e-05]", "\r")))
def test_group_is_removed_exactly(caller: AuditedCaller, end: str) -> None:
    group = format_caller(caller)
    assert re.fullmatch(CALLER_GROUP, group)
    assert remove_caller(f"{LINE} {group}{end}") == (f"{LINE}{end}", True)


@given(callers, callers)
def test_line_with_an_imitation_has_no_single_reading(
    caller: AuditedCaller, other: AuditedCaller
) -> None:
    imitation = f"(kafka.authorizer.logger) {format_caller(other)}"
    assert remove_caller(f"name{imitation} {LINE} {format_caller(caller)}") is None
    assert remove_caller(f"name{imitation} {LINE}") is None
    assert remove_caller(f"{LINE} {format_caller(caller)} [t]") is None


@pytest.mark.parametrize("end", ["", " [t]", " [sampleRate=0.01]", " [knownByx=1]"])
def test_line_without_a_caller_stays(end: str) -> None:
    assert remove_caller(f"{LINE}{end}") == (f"{LINE}{end}", False)
