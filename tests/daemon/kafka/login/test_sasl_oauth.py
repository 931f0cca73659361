"""Tokens of OAUTHBEARER: which of them log in, and what the client learns about the others."""

import itertools
import math
import threading
import time
from contextlib import suppress
from pathlib import Path
from typing import Any

import jwt
import pytest
import trio
import trio.testing
from cryptography.hazmat.primitives.asymmetric import rsa
from cryptography.hazmat.primitives.serialization import Encoding, PublicFormat
from hypothesis import given
from hypothesis import strategies as st

from authorizerd.config.oauth import TokenRules
from authorizerd.config.oauth_url import parse_document_url
from authorizerd.daemon.kafka.errors import AuthenticationError, InvalidCredentialsError
from authorizerd.daemon.kafka.login import issuer_keys
from authorizerd.daemon.kafka.login.issuer_keys import (
    EXTRA_READING_SECONDS_MIN,
    WAIT_SECONDS_MAX,
    IssuerKey,
    IssuerKeys,
    Keys,
    parse_keys,
    read_keys,
)
from authorizerd.daemon.kafka.login.sasl_oauth import REFUSAL, OauthExchange
from authorizerd.daemon.kafka.login.token_check import InvalidTokenError, TokenCheck
from authorizerd.kafka_client.documents import DocumentError
from tests.support.issuer import (
    AUDIENCE,
    ISSUER,
    KEY,
    claims_of,
    first_message,
    jwk_of,
    jwks_of,
    new_key,
    part_of,
    sign,
    unsecured,
)

OTHER = new_key()
RSA = rsa.generate_private_key(65537, 2048)
KEYS = jwks_of(jwk_of(KEY, "k1"), jwk_of(RSA, "r1"))
URL = parse_document_url("https://issuer.test/keys")
RULES = TokenRules(keys_url=URL, audiences=(AUDIENCE, "acls"), issuer=ISSUER)
DAY = 86_400


class KnownKeys(IssuerKeys):
    """Keys that a test sets."""

    def __init__(self, document: bytes = KEYS, rules: TokenRules = RULES) -> None:
        super().__init__(rules, "TEST")
        self._keys = parse_keys(document)


def check(token: str, document: bytes = KEYS, **rules: Any) -> str:  # noqa: ANN401 - of a dataclass
    """Return the user whom a token logs in."""
    changed = TokenRules(**{**_fields(RULES), **rules})
    return TokenCheck(changed, KnownKeys(document, changed)).check(token).user


def _fields(rules: TokenRules) -> dict[str, Any]:
    return {name: getattr(rules, name) for name in TokenRules.__dataclass_fields__}


@pytest.mark.parametrize(("key", "algorithm", "kid"), [
    (KEY, "ES256", "k1"), *((RSA, name, "r1") for name in ("RS256", "RS512", "PS256", "PS384")),
])  # fmt: skip
def test_signed_token_logs_in(key: object, algorithm: str, kid: str) -> None:
    assert check(sign(claims_of("bob"), key, algorithm=algorithm, kid=kid)) == "bob"


@pytest.mark.parametrize(("claims", "rules"), [
    ({"aud": ["other", "acls"]}, {}), ({"scope": "a b"}, {}), ({"scope": ["a", "b"]}, {}),
    ({"seconds": -5}, {}), ({"nbf": time.time() + 20}, {}), ({"exp": 10**30}, {}),
    ({"exp": 10**400}, {}), ({"exp": "9" * 400}, {}),
    ({"iss": None}, {"issuer": None}), ({"iss": "https://other.test"}, {"issuer": None}),
    ({"aud": None}, {"audiences": ()}), ({"azp": "alice", "sub": 7}, {"user_claim": "azp"}),
])  # fmt: skip
def test_claims_that_fit_log_in(claims: dict[str, Any], rules: dict[str, Any]) -> None:
    assert check(sign(claims_of(**claims)), **rules) == "alice"


@pytest.mark.parametrize(("claims", "reason"), [
    ({"seconds": -40}, "expired"), ({"exp": None}, "exp"), ({"iat": None}, "iat"),
    ({"exp": "soon"}, "Expiration"), ({"exp": math.inf}, "Expiration"),
    ({"exp": math.nan}, "Expiration"),
    ({"nbf": time.time() + DAY}, "not yet valid"), ({"iat": time.time() + DAY}, "not yet valid"),
    ({"aud": None}, "aud"), ({"aud": "other"}, f"expected aud {AUDIENCE}, acls, found 'other'"),
    ({"aud": ["other"]}, "Audience"), ({"iss": None}, "iss"),
    ({"iss": "https://issuer.test/"}, f"expected iss {ISSUER}, found 'https://issuer.test/'"),
    ({"sub": None}, "claim sub"), ({"user": " "}, "claim sub"), ({"sub": 7}, "claim sub"),
    ({"user": "a\ud800"}, "claim sub"),
    ({"scope": 1}, "scopes are not texts"), ({"scope": [1]}, "scopes are not texts"),
    ({"scope": ["a", "a"]}, "empty or repeated"), ({"scope": ""}, "empty or repeated"),
])  # fmt: skip
def test_claims_that_do_not_fit_are_refused(claims: dict[str, Any], reason: str) -> None:
    with pytest.raises(InvalidTokenError, match=f"(?i){reason}"):
        check(sign(claims_of(**claims)))


def test_audience_in_a_token_must_be_expected() -> None:
    """As in Kafka: without expected audiences, only tokens without one are accepted."""
    with pytest.raises(InvalidTokenError, match="audience"):
        check(sign(claims_of()), audiences=())


def test_token_of_another_key_is_refused() -> None:
    forged = [
        sign(claims_of(), OTHER),
        sign(claims_of(), OTHER, kid="r1"),
        sign(claims_of(), kid="k2"),
        sign(claims_of(), kid=None),  # there are two keys
        unsecured(claims_of()),
        unsecured(claims_of(), "ES256"),
        f"{part_of({'alg': 'none', 'kid': 'k1'})}.{part_of(claims_of())}.",
        sign(claims_of())[:-8] + "AAAAAAAA",
        "a.b.c", "a", "", "." * 4000, "[" * 4000,
    ]  # fmt: skip
    genuine = sign(claims_of("alice")).split(".")
    forged.append(".".join((genuine[0], part_of(claims_of("root")), genuine[2])))
    for token in forged:
        with pytest.raises(InvalidTokenError):
            check(token)


def test_token_with_a_large_header_is_refused() -> None:
    """The header is read several times, each of which takes milliseconds for a large one."""
    headers = {"kid": "k1", "x5c": "A" * 6000}
    assert check(jwt.encode(claims_of(), KEY, algorithm="ES256", headers=headers)) == "alice"
    with pytest.raises(InvalidTokenError, match="header is too large"):
        check(jwt.encode(claims_of(), KEY, algorithm="ES256", headers=headers | {"b": "A" * 200}))


@pytest.mark.parametrize("encoding", [Encoding.PEM, Encoding.DER])
def test_hmac_with_a_public_key_is_refused(encoding: Encoding) -> None:
    """RFC 8725: the algorithm in the header must not turn a public key into a secret."""
    secret = RSA.public_key().public_bytes(encoding, PublicFormat.SubjectPublicKeyInfo)
    algorithms = jwt.api_jws.PyJWS()
    hmac = algorithms.get_algorithm_by_name("HS256")
    signed = f"{part_of({'alg': 'HS256', 'kid': 'r1'})}.{part_of(claims_of())}"
    signature = jwt.utils.base64url_encode(hmac.sign(signed.encode(), secret)).decode()
    with pytest.raises(InvalidTokenError, match="alg value is not allowed"):
        check(f"{signed}.{signature}")


def test_key_verifies_its_own_algorithms_only() -> None:
    keys = parse_keys(
        jwks_of(
            jwk_of(KEY, "k1"), jwk_of(RSA, "r1"), jwk_of(RSA, "r2", alg="PS256"), jwk_of(RSA, None)
        )
    )
    assert {kid: key.algorithms for kid, key in keys.items()} == {
        "k1": ("ES256",),
        "r1": ("RS256", "RS384", "RS512", "PS256", "PS384", "PS512"),
        "r2": ["PS256"],
        None: ("RS256", "RS384", "RS512", "PS256", "PS384", "PS512"),
    }
    assert check(sign(claims_of(), kid=None), jwks_of(jwk_of(KEY, "k1"))) == "alice"


@pytest.mark.parametrize("entry", [
    jwk_of(KEY, "k", use="enc"), jwk_of(KEY, "k", alg="HS256"), jwk_of(KEY, "k", alg="none"),
    {**jwk_of(KEY, "k"), "key_ops": ["encrypt"]}, {**jwk_of(KEY, "k"), "x": "!"},
    {"kty": "oct", "k": "c2VjcmV0", "kid": "k", "alg": "HS256"}, {"kty": ["RSA"]}, {}, [], 7,
    {**jwk_of(KEY, "k"), "kid": 7}, {**jwk_of(KEY, "k"), "d": "AAAA"},
    jwk_of(rsa.generate_private_key(65537, 1024), "weak"),
])  # fmt: skip
def test_unusable_entry_of_the_keys_is_left_out(entry: object) -> None:
    assert set(parse_keys(jwks_of(entry, jwk_of(KEY, "k1")))) == {"k1"}
    assert parse_keys(jwks_of(entry)) == {}


@pytest.mark.parametrize("document", [b"", b"[]", b"{}", b'{"keys": 7}', b"\xff", b"[" * 10_000])
def test_document_without_keys_is_refused(document: bytes) -> None:
    with pytest.raises(DocumentError):
        parse_keys(document)


def test_too_many_keys_are_refused() -> None:
    with pytest.raises(DocumentError, match="at most 1000"):
        parse_keys(jwks_of(*[{}] * 1001))


def test_unsecured_token_logs_in_only_by_rules_without_keys() -> None:
    rules = TokenRules(keys_url=None, audiences=(AUDIENCE,))
    unverified = TokenCheck(rules, None)
    assert unverified.check(unsecured(claims_of())).user == "alice"
    for token in (
        sign(claims_of()),
        unsecured(claims_of(), "ES256"),
        unsecured(claims_of()) + "AAAA",
        unsecured(claims_of(seconds=-40)),
        unsecured(claims_of(exp=None)),
        unsecured(claims_of(nbf=time.time() + DAY)),
        unsecured(claims_of(aud="other")),
    ):
        with pytest.raises(InvalidTokenError):
            unverified.check(token)


def exchange() -> OauthExchange:
    return OauthExchange(TokenCheck(RULES, KnownKeys()))


@pytest.mark.parametrize(("header", "before", "scheme", "after"), [
    ("n,,", "", "Bearer ", ""), ("n,a=alice,", "", "Bearer ", ""), ("n,,", "", "bEARER  ", ""),
    ("n,,", "pool=a\x01", "Bearer ", ""), ("n,,", "", "Bearer ", "traceId=123\x01pool=a b\x01"),
])  # fmt: skip
def test_message_with_a_valid_token_logs_in(
    header: str, before: str, scheme: str, after: str
) -> None:
    """The extensions of KIP-342 are accepted, and change nothing."""
    begun = exchange()
    token = sign(claims_of(seconds=DAY))
    message = f"{header}\x01{before}auth={scheme}{token}\x01{after}\x01"
    assert begun.answer(message.encode()) == b""
    assert begun.user == "alice"
    assert 0 < begun.lifetime_s <= DAY


def test_invalid_token_is_answered_in_two_steps_without_the_reason() -> None:
    """As in Kafka (RFC 7628). The log gets the reason."""
    begun = exchange()
    assert begun.answer(first_message(sign(claims_of(seconds=-40)))) == REFUSAL.encode()
    assert (begun.user, begun.claimed) == (None, None)
    with pytest.raises(AuthenticationError, match="invalid_token") as failure:
        begun.answer(b"\x01")
    assert failure.value.detail == "Signature has expired"


def test_second_token_on_a_connection_is_refused() -> None:
    """Otherwise, a client could try any number of tokens on one connection."""
    begun = exchange()
    begun.answer(first_message("a.b.c"))
    with pytest.raises(InvalidCredentialsError):
        begun.answer(first_message(sign(claims_of())))
    assert begun.user is None


def test_other_authorization_id_is_refused() -> None:
    with pytest.raises(AuthenticationError, match=r"\(bob\) that is different .* \(alice\)"):
        exchange().answer(first_message(sign(claims_of()), "n,a=bob,"))


@pytest.mark.parametrize("message", [
    b"", b"\x01", b"n,,", b"n,,\x01\x01", b"n,,\x01auth=Bearer \x01\x01", b"n,,\x01auth=x\x01\x01",
    first_message("a.b.c").replace(b"Bearer", b"Basic"), first_message("a.b.c")[:-1],
    first_message("a.b.c") + b"\x01", first_message("a.b.c", "y,,"),
    first_message("a.b.c", "n,a=,"),
    first_message("a.b.c", more="1=2\x01"), first_message("a.b.c", more="a=\x01"),
    first_message("a.b.c", more="auth=Bearer\x01"), first_message("a b c"), b"\xff\xfe",
])  # fmt: skip
def test_malformed_message_is_refused(message: bytes) -> None:
    with pytest.raises(InvalidCredentialsError):
        exchange().answer(message)


@given(st.binary(max_size=200) | st.text(alphabet="n,=a\x01uthBer .", max_size=60).map(str.encode))
def test_any_bytes_are_answered_or_refused(message: bytes) -> None:
    begun = exchange()
    with suppress(AuthenticationError):
        assert begun.answer(message) == REFUSAL.encode()
    assert begun.user is None


class Document:
    """An issuer whose document a test sets; ``read_at`` has the times at which it was read."""

    def __init__(self, *keys: object) -> None:
        self.content: bytes | None = jwks_of(*keys)
        self.read_at: list[float] = []

    async def read(self, _: TokenRules) -> Keys:
        self.read_at.append(trio.current_time())
        await trio.sleep(0.5)
        if self.content is None:
            raise DocumentError("unreachable")
        return parse_keys(self.content)


async def test_unknown_keys_cause_one_reading_in_ten_seconds(
    nursery: trio.Nursery, autojump_clock: trio.testing.MockClock
) -> None:
    """A key that the issuer has just begun to use is found; a flood of others asks for nothing."""
    document = Document(jwk_of(KEY, "k1"))
    keys = IssuerKeys(RULES, "TEST", document.read)
    nursery.start_soon(keys.run)
    await keys.wait_for("k1")  # while the first reading runs
    assert isinstance(keys.find("k1"), IssuerKey)
    document.content = jwks_of(jwk_of(KEY, "k1"), jwk_of(OTHER, "k2"))
    await trio.sleep(20)
    await keys.wait_for("k2")
    assert keys.find("k2") is not None
    for number in range(100):
        started = trio.current_time()
        await keys.wait_for(f"unknown{number}")
        assert trio.current_time() == started
    assert len(document.read_at) == 2
    await trio.sleep(EXTRA_READING_SECONDS_MIN)
    async with trio.open_nursery() as flood:
        for number in range(100):
            flood.start_soon(keys.wait_for, f"unknown{number}")
    assert len(document.read_at) == 3


async def test_keys_are_read_regularly_and_stay_if_the_issuer_fails(
    nursery: trio.Nursery, autojump_clock: trio.testing.MockClock, caplog: pytest.LogCaptureFixture
) -> None:
    """After a failure, the pauses double. The log has one line for each change."""
    caplog.set_level("INFO")
    document = Document(jwk_of(KEY, "k1"))
    keys = IssuerKeys(RULES, "TEST", document.read)
    nursery.start_soon(keys.run)
    await trio.sleep(3600)
    document.content = None
    await trio.sleep(60)
    assert keys.find("k1") is not None
    gaps = [b - a for a, b in itertools.pairwise(document.read_at)]
    assert gaps[:6] == pytest.approx([3600.5, 0.6, 0.7, 0.9, 1.3, 2.1])
    assert max(gaps[1:]) == pytest.approx(10.5)
    document.content = jwks_of(jwk_of(OTHER, "k2"))
    await trio.sleep(20)
    assert (keys.find("k1"), keys.find("k2") is not None) == (None, True)
    assert [record.levelname for record in caplog.records] == ["INFO", "WARNING", "INFO"]


@pytest.mark.parametrize("left", [[], [{}], [jwk_of(KEY, "k1", use="enc")]])
async def test_withdrawn_keys_do_not_stay(
    left: list[object],
    nursery: trio.Nursery,
    autojump_clock: trio.testing.MockClock,
    caplog: pytest.LogCaptureFixture,
) -> None:
    """An issuer that lists no usable key is not an issuer that cannot be reached."""
    document = Document(jwk_of(KEY, "k1"))
    keys = IssuerKeys(RULES, "TEST", document.read)
    nursery.start_soon(keys.run)
    await trio.sleep(3000)
    document.content = jwks_of(*left)
    await trio.sleep(8000)
    assert (keys.find("k1"), keys.find(None), keys.is_failing) == (None, None, False)
    assert [record.levelname for record in caplog.records] == ["WARNING"]


async def test_keys_are_parsed_in_a_thread(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A thousand of them would occupy the event loop for 30 ms."""
    file = tmp_path / "keys"
    file.write_bytes(KEYS)
    threads = []

    def parse(document: bytes) -> Keys:
        threads.append(threading.current_thread())
        return parse_keys(document)

    monkeypatch.setattr(issuer_keys, "parse_keys", parse)
    rules = TokenRules(keys_url=parse_document_url(f"file://{file}"))
    assert set(await read_keys(rules)) == {"k1", "r1"}
    assert threads != [threading.main_thread()]


async def test_login_waits_a_bounded_time_for_keys(
    autojump_clock: trio.testing.MockClock,
) -> None:
    keys = IssuerKeys(RULES, "TEST", Document().read)  # nobody reads them
    await keys.wait_for("k1")
    assert trio.current_time() == pytest.approx(WAIT_SECONDS_MAX)
