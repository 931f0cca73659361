"""The user and the address of a gateway's request, from one header each."""

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from authorizerd.config.principals.mapping import PrincipalMapping
from authorizerd.config.routes.errors import REFUSED, UNKNOWN_USER, RefusedRequestError
from authorizerd.config.routes.identity import CERTIFICATE, NAME, USER, Identity

HEADER, HOST = b"x-forwarded-user", b"x-real-ip"


def identity_of(form: str = NAME, rules: str = "DEFAULT") -> Identity:
    return Identity(
        principal="X-Forwarded-User",
        host="X-Real-IP",
        form=form,
        mapping=PrincipalMapping.parse(rules) if form == CERTIFICATE else None,
    )


def principal_of(value: str | bytes, form: str = NAME, rules: str = "DEFAULT") -> str:
    data = value if isinstance(value, bytes) else value.encode()
    return identity_of(form, rules).read_principal({HEADER: data})


@pytest.mark.parametrize(("form", "value", "principal"), [
    (NAME, "alice", "User:alice"),
    (NAME, "User:alice", "User:alice"),
    (NAME, "Group:ops", "Group:ops"),
    (NAME, "Service:a:b", "Service:a:b"),
    (NAME, "CN=alice, O=x", "User:CN=alice, O=x"),
    (NAME, "alice, bob", "User:alice, bob"),
    (NAME, "üser", "User:üser"),
    (NAME, ":x", "User::x"),
    (NAME, "User:", "User:User:"),
    (NAME, "a b:c", "User:a b:c"),
    (NAME, "*", None),
    (NAME, "User:*", None),
    (USER, "alice", "User:alice"),
    (USER, "User:root", "User:User:root"),
    (USER, "*", None),
    (CERTIFICATE, 'Hash=ab;Subject="CN=alice,O=x"', "User:CN=alice,O=x"),
    (CERTIFICATE, 'By=spiffe://a;Hash=0f;Cert="-----B%0A";Subject="CN=a";URI=;DNS=b', "User:CN=a"),
    (CERTIFICATE, 'subject="CN=a"', "User:CN=a"),
    (CERTIFICATE, "Subject=CN", None),
    (CERTIFICATE, 'Subject="CN=Acme\\, Inc,street=x"', "User:CN=Acme\\, Inc,STREET=x"),
    (CERTIFICATE, 'Subject="CN=J\\C3\\BCrgen"', "User:CN=Jürgen"),
])  # fmt: skip
def test_value_names_one_principal(form: str, value: str, principal: str | None) -> None:
    if principal is None:
        with pytest.raises(RefusedRequestError):
            principal_of(value, form)
    else:
        assert principal_of(value, form) == principal


def test_rules_map_the_subject() -> None:
    rules = "RULE:^CN=(.*?),.*$/$1/L,DEFAULT"
    assert principal_of('Subject="CN=Alice,O=x"', CERTIFICATE, rules) == "User:alice"
    assert principal_of('Subject="CN=Alice"', CERTIFICATE, rules) == "User:CN=Alice"
    with pytest.raises(RefusedRequestError, match="no rule matches 'CN=b'"):
        principal_of('Subject="CN=b"', CERTIFICATE, "RULE:^CN=a$/a/")


@pytest.mark.parametrize(("value", "reason"), [
    ('Subject="CN=a",Subject="CN=b"', "expected one certificate"),
    ('Hash=a;Subject="CN=a", Hash=b', "expected one certificate"),
    ('Subject="CN=a";Subject="CN=b"', "two Subjects"),
    ('Subject="CN=a";SUBJECT="CN=b"', "two Subjects"),
    ('Subject="";URI=a;Subject="CN=b"', "two Subjects"),
    ('Subject="CN=a";', "expected one certificate"),
    ('Subject="CN=a" ', "expected one certificate"),
    ('Subject="CN=a";Hash', "expected one certificate"),
    ('Subject="CN=\\"a\\""', "expected one certificate"),
    ('Subject="CN=a', "expected one certificate"),
    ("Subject=CN=a\\", "expected one certificate"),
    ("CN=a,O=b", "expected one certificate"),
    ("Hash=ab", "no Subject"),
    ('Subject=""', "no Subject"),
    ("Subject=", "no Subject"),
    ('Subject="alice"', "text of the certificate's Subject is uncertain"),
    ('Subject="CN=a+OU=b"', "text of the certificate's Subject is uncertain"),
    ('Subject="CN=a,serialNumber=1"', "text of the certificate's Subject is uncertain"),
    ('Subject="CN=a\\FF"', "not printable"),
    ('Subject="CN=a\\0A"', "not printable"),
])  # fmt: skip
def test_certificate_with_two_readings_is_refused(value: str, reason: str) -> None:
    with pytest.raises(RefusedRequestError, match=re.escape(reason)) as refusal:
        principal_of(value, CERTIFICATE)
    assert refusal.value.status == REFUSED


@pytest.mark.parametrize(
    "value", [b"\xff", b"a\tb", "a\u202eb".encode(), "a\x85".encode(), b"\xc3"]
)
@pytest.mark.parametrize("form", [NAME, USER])
def test_name_that_is_no_text_is_refused(value: bytes, form: str) -> None:
    with pytest.raises(RefusedRequestError) as refusal:
        principal_of(value, form)
    assert refusal.value.status == REFUSED


@pytest.mark.parametrize("headers", [{}, {HEADER: b""}, {b"x-remote-user": b"alice"}])
def test_user_without_a_header_is_unknown(headers: dict[bytes, bytes]) -> None:
    with pytest.raises(RefusedRequestError, match="no header X-Forwarded-User") as refusal:
        identity_of().read_principal(headers)
    assert refusal.value.status == UNKNOWN_USER


@pytest.mark.parametrize(("value", "host"), [
    (b"10.0.0.1", "10.0.0.1"), (b"2001:db8::1", "2001:db8:0:0:0:0:0:1"), (b"::ffff:10.0.0.1",
     "10.0.0.1"),
    (b"fe80::1%eth0", "fe80:0:0:0:0:0:0:1%eth0"),
    (b"", None), (None, None), (b"10.0.0.1, 10.0.0.2", None), (b"10.0.0.1,10.0.0.2", None),
    (b"unix:", None), (b"localhost", None), (b"10.0.0.1:80", None), (b"[::1]", None),
     (b"10.0.0.256", None),
    (b"010.0.0.1", None), (b"10.0.0.1/8", None), (b"\xff", None), (b"2001:db8::1%x", None),
])  # fmt: skip
def test_host_is_exactly_one_address(value: bytes | None, host: str | None) -> None:
    headers = {} if value is None else {HOST: value}
    if host is not None:
        assert identity_of().read_host(headers) == host
        return
    with pytest.raises(RefusedRequestError, match="X-Real-IP") as refusal:
        identity_of().read_host(headers)
    assert refusal.value.status == REFUSED


@given(st.binary(max_size=30), st.sampled_from([b"", b"Subject=", b'Subject="CN=', b"User:"]))
def test_every_value_is_a_principal_or_refused(data: bytes, start: bytes) -> None:
    for form in (NAME, USER, CERTIFICATE):
        try:
            principal = identity_of(form).read_principal({HEADER: start + data})
        except RefusedRequestError:
            continue
        kind, _, name = principal.partition(":")
        assert kind
        assert name
        assert principal.isprintable()
        assert principal != "User:*"
