"""How clients log in to SASL listeners, and the JAAS lines that say so."""

import re
from contextlib import nullcontext, suppress

import pytest
from hypothesis import given
from hypothesis import strategies as st

from authorizerd.config.errors import InvalidValueError
from authorizerd.config.jaas import (
    PLAIN_LOGIN_MODULE,
    SCRAM_LOGIN_MODULE,
    PlainUsers,
    parse_login,
    parse_login_options,
    parse_plain_users,
    quote_option,
)
from authorizerd.config.oauth import OAUTH_LOGIN_MODULE, TokenRules
from authorizerd.config.oauth_keys import UNSECURED
from authorizerd.config.oauth_url import parse_document_url
from authorizerd.config.sasl import SaslSettings
from tests.config.properties_file import BASE, configure, refuse

LISTENER = "listeners=SASL_PLAINTEXT://127.0.0.1:1"
PREFIX = "listener.name.sasl_plaintext."
USERS = f"{PREFIX}plain.sasl.jaas.config={PLAIN_LOGIN_MODULE} required user_a=b;"
SCRAM = "sasl.enabled.mechanisms=SCRAM-SHA-512,SCRAM-SHA-256"
OAUTH = "sasl.enabled.mechanisms=OAUTHBEARER"
JWKS = "sasl.oauthbearer.jwks.endpoint.url=https://issuer.test:8443/keys?tenant=1"
UNSECURED_TOKENS = f"sasl.server.callback.handler.class={UNSECURED}"
SCRAM_LOGIN = f'{SCRAM_LOGIN_MODULE} required username="b" password="hidden";'


def settings(*lines: str) -> SaslSettings:
    return configure(LISTENER, *lines).sasl_listeners["SASL_PLAINTEXT"]


def test_scram_needs_no_users() -> None:
    """SCRAM's users are in the log. The mechanisms keep their order, each once."""
    scram = settings(f"{SCRAM},SCRAM-SHA-512")
    assert scram.mechanisms == ("SCRAM-SHA-512", "SCRAM-SHA-256")
    assert scram.users == PlainUsers({})


def test_kafkas_login_line_for_scram_is_accepted() -> None:
    """Its options are for the broker's own connections, so the daemon does not use them."""
    line = f"{PREFIX}scram-sha-256.sasl.jaas.config={SCRAM_LOGIN}"
    configuration = configure(LISTENER, SCRAM, line)
    assert configuration.ignored_keys == ()
    assert configuration.sasl_listeners["SASL_PLAINTEXT"] == settings(SCRAM)


def test_listeners_own_mechanisms_replace_the_general_ones() -> None:
    both = settings(SCRAM, f"{PREFIX}sasl.enabled.mechanisms=SCRAM-SHA-256,PLAIN", USERS)
    assert both.mechanisms == ("SCRAM-SHA-256", "PLAIN")
    assert both.users == PlainUsers({"a": "b"})


@pytest.mark.parametrize(("lines", "session_ms"), [
    ([], (0, 0)),
    (["connections.max.reauth.ms=5"], (5, 5)),
    (["connections.max.reauth.ms=-5"], (0, 0)),
    (["connections.max.reauth.ms=5", f"{PREFIX}connections.max.reauth.ms=6"], (6, 6)),
    ([f"{PREFIX}plain.connections.max.reauth.ms=7"], (7, 0)),
    (["connections.max.reauth.ms=5", f"{PREFIX}connections.max.reauth.ms=6",
      f"{PREFIX}scram-sha-256.connections.max.reauth.ms=0"], (6, 0)),
])  # fmt: skip
def test_narrowest_session_length_counts(lines: list[str], session_ms: tuple[int, int]) -> None:
    """The mechanism's precedes the listener's, which precedes the general one."""
    mechanisms = f"{PREFIX}sasl.enabled.mechanisms=PLAIN,SCRAM-SHA-256"
    configuration = configure(LISTENER, mechanisms, USERS, *lines)
    found = configuration.sasl_listeners["SASL_PLAINTEXT"].session_ms
    assert (found["PLAIN"], found["SCRAM-SHA-256"]) == session_ms
    assert configuration.ignored_keys == ()


@pytest.mark.parametrize(("lines", "said"), [
    ([], f": {PREFIX}plain.sasl.jaas.config: required because SASL_PLAINTEXT enables PLAIN"),
    (["sasl.enabled.mechanisms=GSSAPI"],
     ":4: sasl.enabled.mechanisms: listeners do not support GSSAPI: use one or more of"
     " PLAIN, SCRAM-SHA-256, SCRAM-SHA-512"),
    ([OAUTH], ": sasl.oauthbearer.jwks.endpoint.url: SASL_PLAINTEXT: required for OAUTHBEARER"),
    ([OAUTH, "sasl.oauthbearer.jwks.endpoint.url=http://issuer.test/keys"],
     ":5: sasl.oauthbearer.jwks.endpoint.url: expected https, since anyone on the network"),
    ([OAUTH, JWKS, f"{PREFIX}oauthbearer.sasl.jaas.config={SCRAM_LOGIN}"],
     f":6: {PREFIX}oauthbearer.sasl.jaas.config: expected the login module {OAUTH_LOGIN_MODULE}"),
    ([OAUTH, JWKS, f"{PREFIX}oauthbearer.sasl.jaas.config={OAUTH_LOGIN_MODULE} required"
      ' ssl.truststore.password="hidden" ssl.truststore.certificates="hidden";'],
     f":6: {PREFIX}oauthbearer.sasl.jaas.config: SASL_PLAINTEXT: ssl.truststore.password: PEM has"),
    ([OAUTH, JWKS, f"{PREFIX}{UNSECURED_TOKENS}"],
     ":5: sasl.oauthbearer.jwks.endpoint.url: SASL_PLAINTEXT: sasl.server.callback.handler.class"),
    ([OAUTH, "sasl.server.callback.handler.class=com.example.Handler"],
     ":5: sasl.server.callback.handler.class: invalid class 'com.example.Handler'"),
    (["sasl.enabled.mechanisms=SCRAM-SHA-1"],
     ":4: sasl.enabled.mechanisms: invalid SASL mechanism 'SCRAM-SHA-1': expected one of"),
    ([SCRAM, f"{PREFIX}scram-sha-512.sasl.jaas.config={PLAIN_LOGIN_MODULE} required a=b;"],
     f":5: {PREFIX}scram-sha-512.sasl.jaas.config: expected the login module"
     f" {SCRAM_LOGIN_MODULE}"),
    ([SCRAM, f"{PREFIX}scram-sha-256.connections.max.reauth.ms=1s"],
     f":5: {PREFIX}scram-sha-256.connections.max.reauth.ms: expected an integer"),
    ([SCRAM, f"connections.max.reauth.ms={2**63 - 1}"],
     ":5: connections.max.reauth.ms: expected an integer"),
    ([SCRAM, "connection.failed.authentication.delay.ms=5", "connections.max.idle.ms=5"],
     ":5: connection.failed.authentication.delay.ms: expected less than"
     " connections.max.idle.ms (5), found 5"),
], ids=lambda part: part[-1][-40:] if isinstance(part, list) and part else "")  # fmt: skip
def test_invalid_log_ins_are_rejected(lines: list[str], said: str) -> None:
    """The error names the key and its place."""
    text = refuse("\n".join((f"{BASE}{LISTENER}", *lines, "")))
    assert said in text
    assert "hidden" not in text


def test_keys_of_the_mechanism_replace_those_of_the_listener_and_general_ones() -> None:
    """As in Kafka. The listener's JAAS line has the CA of the issuer."""
    configuration = configure(
        LISTENER, OAUTH, JWKS, "sasl.oauthbearer.expected.audience=general",
        f"{PREFIX}sasl.oauthbearer.expected.audience=kafka, acls",
        f"{PREFIX}sasl.oauthbearer.expected.issuer=https://other.test",
        f"{PREFIX}oauthbearer.sasl.oauthbearer.expected.issuer=https://issuer.test",
        f"{PREFIX}oauthbearer.sasl.jaas.config={OAUTH_LOGIN_MODULE} required"
        " ssl.truststore.location=ca.pem;",
    )  # fmt: skip
    rules = configuration.sasl_listeners["SASL_PLAINTEXT"].tokens
    assert rules is not None
    assert (rules.audiences, rules.issuer) == (("kafka", "acls"), "https://issuer.test")
    assert rules.keys_url is not None
    assert (rules.keys_url.host, rules.keys_url.port) == ("issuer.test", 8443)
    assert (rules.keys_url.target, rules.keys_url.is_tls) == ("/keys?tenant=1", True)
    assert rules.keys_url.text == "https://issuer.test:8443/keys"  # a query may have a secret
    assert rules.keys_tls is not None
    assert rules.keys_tls.truststore is not None
    assert rules.keys_tls.truststore.location == "ca.pem"
    assert (rules.skew_s, rules.refresh_ms, rules.user_claim) == (30, 3_600_000, "sub")
    assert configuration.ignored_keys == ()


def test_unsecured_tokens_need_a_key_and_a_loopback_address() -> None:
    assert settings(OAUTH, UNSECURED_TOKENS).tokens == TokenRules(keys_url=None)
    everywhere = f"{BASE}listeners=SASL_SSL://192.0.2.1:1\n{OAUTH}\n{UNSECURED_TOKENS}\n"
    expected = ":5: sasl.server.callback.handler.class: SASL_SSL: unsecured tokens let everyone"
    assert expected in refuse(everywhere)


@pytest.mark.parametrize(("text", "path"), [
    ("file:///etc/keys.json", "/etc/keys.json"), ("file:/a%20b", "/a b"),
    ("FILE://localhost/k", "/k"),
    ("http://127.0.0.1:8080/keys", None), ("http://[::1]/keys", None),
    ("https://[2001:db8::1]", None),
])  # fmt: skip
def test_documents_come_from_files_over_tls_or_from_this_machine(
    text: str, path: str | None
) -> None:
    assert parse_document_url(text).path == path


@pytest.mark.parametrize("text", [
    "", "keys", "ftp://h/k", "https://", "https://user:hidden@h/k", "https://h:0/k", "https://h:x/k",
    "https://h/k#part", "https://h/a b", "https://h/\x7f", "https://h/\xe4", "file://other/k",
    "file:",
    "http://h/k", "http://10.0.0.1/k", "https://[::1/k",
])  # fmt: skip
def test_other_places_of_documents_are_rejected(text: str) -> None:
    with pytest.raises(InvalidValueError):
        parse_document_url(text)


@pytest.mark.parametrize("text", [
    "https://user:hidden@h/k", "https://us@er:hidden@h/k", "https://h:x/k?key=hidden",
    "https://h/k?key=hidden a", "ftp://h/k?a&key=hidden", "https://h/k?hidden#part",
])  # fmt: skip
def test_error_about_a_place_of_documents_has_no_secret(text: str) -> None:
    with pytest.raises(InvalidValueError, match="invalid URL") as error:
        parse_document_url(text)
    assert "hidden" not in str(error.value)


def test_delay_of_failed_log_ins_is_kafkas() -> None:
    assert configure().connection_failed_authentication_delay_ms == 100
    configuration = configure("connection.failed.authentication.delay.ms=0")
    assert configuration.connection_failed_authentication_delay_ms == 0


def test_listeners_with_tls_have_the_same_settings() -> None:
    configuration = configure(
        "listeners=SASL_SSL://127.0.0.1:1,PLAINTEXT://127.0.0.1:2,SSL://127.0.0.1:3",
        "ssl.keystore.type=PEM",
        "ssl.keystore.location=/k.pem",
        SCRAM,
    )
    assert configuration.sasl_listeners == {"SASL_SSL": settings(SCRAM)}


LINE = f"{PLAIN_LOGIN_MODULE} required "


@pytest.mark.parametrize(("line", "options"), [
    (f'{LINE}a="x y" b=z ;', {"a": "x y", "b": "z"}),
    (f"  {PLAIN_LOGIN_MODULE}\tREQUIRED\ta='x y' b='c\"d' ; ", {"a": "x y", "b": 'c"d'}),
    (f"{PLAIN_LOGIN_MODULE} optional a.b-c$d=x-y;", {"a.b-c$d": "x-y"}),
    (f'{LINE}a = "b\\"c" d="e\\\\f;=" g="h";', {"a": 'b"c', "d": "e\\f;=", "g": "h"}),
    (f'{LINE}a="" b=c a="last";', {"a": "last", "b": "c"}),
    (f"{PLAIN_LOGIN_MODULE} required;", {}),
])  # fmt: skip
def test_options_may_be_quoted_in_either_way_or_bare(line: str, options: dict[str, str]) -> None:
    assert parse_login_options(line) == options


# What Kafka 4.3.1's JaasConfig gave for each end of a line; None is an error.
KAFKA: list[tuple[str, dict[str, str] | None]] = [
    ('"user_alice@example.com"="x";', {"user_alice@example.com": "x"}),
    ('password="a\\tb\\n\\r\\f\\b\\a\\v";', {"password": "a\tb\n\r\f\b\a\v"}),
    ('password="a\\101b\\7\\377\\4777\\08";', {"password": "aAb\x07ÿ'77\x008"}),
    ('password="\\u0041\\x\\é";', {"password": "u0041xé"}),
    ("/* c */ user_a /*/ x=y */ = // z\n b /**/;", {"user_a": "b"}),
    ("a=b/c=d;\ne=f;", {"a": "b", "e": "f"}),
    ("a=b / c=d;", None),
    ("a=b /* c=d;", None),
    ("a='b\nc=d;", {"a": "b", "c": "d"}),
    ('a="b\\\nc";', {"a": "b\nc"}),
    ('7=x -="y" @=z .5=w;', {}),
    ("a=7;", None),
    ("a=.b;", None),
    ("a=-b;", None),
    ("a=b-c.7;", {"a": "b-c.7"}),
    ("a=p@x;", None),
    ("a=p@=x;", {"a": "p"}),
    ("a=c29tZQ==;", None),
    ("a=é日\xa0;", {"a": "é日\xa0"}),
    ("a=b\x80;", None),
    ("a=b\0c=d\x1f;", {"a": "b", "c": "d"}),
    ("a=b;;", None),
    ("a=b; c.D required;", None),
    ("a=b /\n c=d\n e=f;", {"a": "b", "e": "f"}),
    ("a=b //\n e=f;", {"a": "b", "e": "f"}),
    ("a=b; // c", {"a": "b"}),
]


@pytest.mark.parametrize(("end", "options"), KAFKA)
def test_options_are_kafkas(end: str, options: dict[str, str] | None) -> None:
    with nullcontext() if options is not None else pytest.raises(InvalidValueError):
        assert parse_login(LINE + end) == (PLAIN_LOGIN_MODULE, options)


@pytest.mark.parametrize("flag", ["Required", "'sufficient'", "requ\u0131red", "su\ufb03cient"])
def test_module_may_be_quoted_and_flag_is_of_any_case(flag: str) -> None:
    line = f'"{PLAIN_LOGIN_MODULE}" {flag} a=b;'
    assert parse_login(line) == (PLAIN_LOGIN_MODULE, {"a": "b"})


@given(st.text(st.characters(exclude_categories=["Cs"])))
def test_quoted_option_reads_back(text: str) -> None:
    line = f"{LINE}{quote_option(text)}={quote_option(text)};"
    assert parse_login_options(line) == {text: text}


def test_line_may_name_any_of_the_given_modules() -> None:
    line = f'{SCRAM_LOGIN_MODULE} required username="a";'
    modules = (PLAIN_LOGIN_MODULE, SCRAM_LOGIN_MODULE)
    assert parse_login_options(line, modules) == {"username": "a"}
    expected = f"expected the login module {PLAIN_LOGIN_MODULE}"
    with pytest.raises(InvalidValueError, match=f"^{expected}$"):
        parse_login_options(line)
    with pytest.raises(InvalidValueError, match=f"^{expected} or {SCRAM_LOGIN_MODULE}$"):
        parse_login_options(line.replace("scram", "other"), modules)


def test_only_options_with_the_prefix_are_users() -> None:
    """A broker logs in elsewhere as ``username``, who may not log in here."""
    line = LINE + 'username="admin" password="x" user_admin="a b" user_bob=c ;'
    assert parse_plain_users(line) == PlainUsers({"admin": "a b", "bob": "c"})


@given(st.text(st.characters(exclude_categories=["Cs"])), st.sampled_from("'\""))
def test_quoted_password_may_be_any_text(password: str, quote: str) -> None:
    """Backslashes escape quotes, ends of lines and themselves."""
    quoted = re.sub(rf"[\\\\\r\n{quote}]", r"\\\g<0>", password)
    line = f"{LINE}user_a={quote}{quoted}{quote};"
    assert parse_plain_users(line).passwords == {"a": password}


@pytest.mark.parametrize(("line", "said"), [
    ("", "the login module"),
    ("other.Module required user_a=hidden;", "the login module"),
    (PLAIN_LOGIN_MODULE, "after the login module"),
    (f"{PLAIN_LOGIN_MODULE} needed user_a=hidden;", "after the login module"),
    (f"{PLAIN_LOGIN_MODULE} required", "option 1"),
    (LINE + "user_a=hidden", "';' after the last option"),
    (LINE + 'user_a="hidden;', "option 2"),
    (LINE + "user_a=;", "option 1"),
    (LINE + 'user_a="b" "hidden";', "option 2"),
    (LINE + 'user_a="b" user_c hidden;', "option 2"),
    (LINE + 'username="admin" password="hidden";', "at least one option user_NAME"),
    (LINE + ";", "at least one option user_NAME"),
])  # fmt: skip
def test_malformed_line_is_rejected_without_its_secrets(line: str, said: str) -> None:
    with pytest.raises(InvalidValueError, match=said) as error:
        parse_plain_users(line)
    assert "hidden" not in str(error.value)


@given(st.text("=;'\"\\ ab\n", max_size=12))
def test_any_line_is_options_or_an_error(end: str) -> None:
    with suppress(InvalidValueError):
        assert parse_login_options(f"{LINE}a=b {end}")


def test_passwords_are_never_shown() -> None:
    assert "hidden" not in repr([PlainUsers({"a": "hidden"})])
