"""SASL/SCRAM messages, according to RFC 5802, RFC 7677 and Kafka's patterns."""

import base64
import hashlib
import hmac
from collections.abc import Callable

import pytest
from hypothesis import given
from hypothesis import strategies as st

from authorizerd.daemon.kafka.errors import AuthenticationError, InvalidCredentialsError
from authorizerd.daemon.kafka.login.sasl_scram import (
    OTHER_AUTHORIZATION_ID,
    TOKENS_UNSUPPORTED,
    ScramExchange,
)
from authorizerd.image.changes import CredentialAdded
from authorizerd.protocol.records.scram import ScramMechanism
from tests.support.sasl import SHA_256, SHA_512, LoadedCredentials, credential_of

PASSWORD = "alice-secret"
KNOWN = LoadedCredentials(
    *(credential_of("alice", PASSWORD, mechanism) for mechanism in ScramMechanism),
    credential_of("a=b,c", PASSWORD),
)
ALICE = b"n,,n=alice,r=abc"


def new_exchange(
    mechanism: ScramMechanism = SHA_256,
    credentials: LoadedCredentials = KNOWN,
    nonce: str = "server",
) -> ScramExchange:
    return ScramExchange(mechanism, credentials.look_up, nonce)


def final_of(
    first: bytes,
    challenge: bytes,
    *,
    password: str = PASSWORD,
    mechanism: ScramMechanism = SHA_256,
    binding: bytes | None = None,
    nonce: bytes | None = None,
    extensions: bytes = b"",
    edit: Callable[[bytes], bytes] = bytes,
) -> bytes:
    """Return the second message for a first one, by RFC 5802; ``edit`` changes the proof."""
    fields = dict(part.split(b"=", 1) for part in challenge.split(b","))
    salt, iterations = base64.b64decode(fields[b"s"]), int(fields[b"i"])
    name = mechanism.hash_name
    salted = hashlib.pbkdf2_hmac(name, password.encode(), salt, iterations)
    client_key = hmac.digest(salted, b"Client Key", name)
    header_end = first.index(b",", 2) + 1
    header = first[:header_end] if binding is None else binding
    unproved = b"c=%b,r=%b%b" % (
        base64.b64encode(header),
        fields[b"r"] if nonce is None else nonce,
        extensions,
    )
    conversation = b",".join((first[header_end:], challenge, unproved))
    signature = hmac.digest(hashlib.new(name, client_key).digest(), conversation, name)
    proof = bytes(x ^ y for x, y in zip(client_key, signature, strict=True))
    return unproved + b",p=" + base64.b64encode(edit(proof))


def test_example_of_rfc_7677() -> None:
    """Both answers are those that the RFC shows."""
    credentials = LoadedCredentials(
        credential_of("user", "pencil", salt=base64.b64decode("W22ZaJ0SNY7soEsUEjb6gQ=="))
    )
    exchange = new_exchange(credentials=credentials, nonce="%hvYDpWUa2RaTCAfuxFIlj)hNlF$k0")
    assert exchange.answer(b"n,,n=user,r=rOprNGfwEbeRWgbNEkqO") == (
        b"r=rOprNGfwEbeRWgbNEkqO%hvYDpWUa2RaTCAfuxFIlj)hNlF$k0,s=W22ZaJ0SNY7soEsUEjb6gQ==,i=4096"
    )
    assert exchange.user is None
    assert exchange.answer(
        b"c=biws,r=rOprNGfwEbeRWgbNEkqO%hvYDpWUa2RaTCAfuxFIlj)hNlF$k0,"
        b"p=dHzbZapWIk4jUhN+Ute9ytag9zjfMHgsqmmiz7AndVQ="
    ) == (b"v=6rriTRBi23WpRR/wtup+mMhUZUn/dB5nLTJRsjl95G4=")
    assert exchange.user == "user"


@pytest.mark.parametrize("mechanism", ScramMechanism)
@pytest.mark.parametrize("credential", [b"MTIz", b""])
def test_short_salts_are_accepted(mechanism: ScramMechanism, credential: bytes) -> None:
    """Kafka's tools can write them."""
    salt = base64.b64decode(credential)
    credentials = LoadedCredentials(credential_of("alice", PASSWORD, mechanism, salt=salt))
    exchange = new_exchange(mechanism, credentials)
    exchange.answer(final_of(ALICE, exchange.answer(ALICE), mechanism=mechanism))
    assert exchange.user == "alice"


@pytest.mark.parametrize(
    ("first", "user"),
    [
        (ALICE, "alice"),
        (b"n,a=alice,n=alice,r=abc", "alice"),
        (b"n,,n=alice,r=abc,ext=1,tokenauth=false", "alice"),
        (b"n,,n=a=3Db=2Cc,r=abc", "a=b,c"),
        (b"n,a=a=3Db=2Cc,n=a=3Db=2Cc,r=abc", "a=b,c"),
    ],
)
def test_right_password_logs_in(first: bytes, user: str) -> None:
    """The authorization id is absent or the user's own; unknown extensions are ignored."""
    exchange = new_exchange()
    final = final_of(first, exchange.answer(first), extensions=b",ext=2")
    assert exchange.answer(final).startswith(b"v=")
    assert exchange.user == user


@pytest.mark.parametrize(
    "first",
    [
        b"",
        b"n,,",
        b"n,,n=alice",
        b"n,,n=,r=abc",
        b"n,,n=alice,r=",
        b"y,,n=alice,r=abc",
        b"p=tls-unique,,n=alice,r=abc",
        b"n,n=alice,r=abc",
        b"n,a=,n=alice,r=abc",
        b"n,,n=ali=ce,r=abc",
        b"n,,n=alice=2c,r=abc",
        b"n,,n=ali\0ce,r=abc",
        b"n,,m=ext,n=alice,r=abc",
        b"n,,r=abc,n=alice",
        b"n,,n=alice,r=a c",
        b"n,,n=alice,r=abc,",
        b"n,,n=alice,r=abc,1=2",
        b"n,,n=alice,r=abc,x=",
        b"n,,n=alice,r=abc\n",
        b" n,,n=alice,r=abc",
        "n,,n=zoë,r=abc".encode(),
        b"n,,n=\xff,r=abc",
        b"\0alice\0alice-secret",
    ],
)
def test_malformed_first_message_fails(first: bytes) -> None:
    """Kafka's pattern rejects it, too; names are ASCII."""
    with pytest.raises(InvalidCredentialsError):
        new_exchange().answer(first)


@pytest.mark.parametrize(
    ("first", "text"),
    [
        (b"n,,n=alice,r=abc,tokenauth=true", TOKENS_UNSUPPORTED),
        (b"n,,n=nobody,r=abc,x=y,tokenauth=True", TOKENS_UNSUPPORTED),
        (b"n,a=bob,n=alice,r=abc", OTHER_AUTHORIZATION_ID),
        (b"n,a=bob,n=nobody,r=abc", OTHER_AUTHORIZATION_ID),
        (b"n,a=Alice,n=alice,r=abc", OTHER_AUTHORIZATION_ID),
    ],
)
def test_unsupported_request_is_refused_by_name(first: bytes, text: str) -> None:
    """The text is the same for unknown users."""
    with pytest.raises(AuthenticationError) as refused:
        new_exchange().answer(first)
    assert not isinstance(refused.value, InvalidCredentialsError)
    assert str(refused.value) == text


@pytest.mark.parametrize(
    ("changes", "before", "after"),
    [
        ({"password": "wrong"}, b"", b""),
        ({"password": ""}, b"", b""),
        ({"binding": b"n,a=alice,"}, b"", b""),
        ({"binding": b"y,,"}, b"", b""),
        ({"binding": b""}, b"", b""),
        ({"nonce": b"abc"}, b"", b""),
        ({"nonce": b"abcserver2"}, b"", b""),
        ({"nonce": b"server"}, b"", b""),
        ({"mechanism": SHA_512}, b"", b""),
        ({"edit": lambda proof: proof[:-1]}, b"", b""),
        ({"edit": lambda proof: proof + b"\0"}, b"", b""),
        ({"edit": lambda proof: b""}, b"", b""),
        ({"edit": lambda proof: bytes(len(proof))}, b"", b""),
        ({}, b",p=", b",p=!"),
        ({}, b"c=biws", b"c=biw"),
        ({}, b"c=biws", b"c=biws=="),
        ({}, b"c=biws", b"c="),
        ({}, b",p=", b","),
        ({}, b",p=", b",q="),
        ({}, b"c=", b"d="),
        ({}, b",p=", b",x,p="),
        ({}, b",p=", b",m\xff=1,p="),
        ({}, b"=", b"=\n"),
    ],
)
def test_wrong_final_message_fails(changes: dict[str, object], before: bytes, after: bytes) -> None:
    """Another password, header or nonce, a proof of another size, or bytes that are replaced."""
    exchange = new_exchange()
    final = final_of(ALICE, exchange.answer(ALICE), **changes)  # type: ignore[arg-type] # see above
    assert before in final
    with pytest.raises(InvalidCredentialsError):
        exchange.answer(final.replace(before, after) if before else final)
    assert exchange.user is None


@pytest.mark.parametrize("later", [(), (credential_of("alice", "another"),)])
def test_credential_replaced_during_the_log_in_is_invalid(later: tuple[CredentialAdded]) -> None:
    """Otherwise a client could log in with the old password after a change."""
    credentials = LoadedCredentials(credential_of("alice", PASSWORD))
    exchange = new_exchange(credentials=credentials)
    final = final_of(ALICE, exchange.answer(ALICE))
    credentials.load(*later)
    with pytest.raises(InvalidCredentialsError):
        exchange.answer(final)
    assert exchange.user is None


def test_proof_of_another_login_fails() -> None:
    """The server's nonce differs, so a recorded authentication cannot be repeated."""
    recorded = new_exchange(nonce="first")
    final = final_of(ALICE, recorded.answer(ALICE))
    recorded.answer(final)
    assert recorded.user == "alice"
    exchange = new_exchange(nonce="other")
    exchange.answer(ALICE)
    for repeated in (final, final.replace(b"first", b"other")):
        with pytest.raises(InvalidCredentialsError):
            exchange.answer(repeated)
    assert exchange.user is None


ALPHABET = b"".join(
    (b"n,a=r:cpme\0\xff \n\xc3\xab", b"tokenuh", b"=2C=3D", base64.b64encode(bytes(range(9))))
)
TOKENS = st.one_of(
    st.binary(max_size=100),
    st.lists(st.sampled_from(list(ALPHABET)), max_size=60).map(bytes),
    st.from_regex(rb"n,(a=.{0,3})?,n=(alice|.{0,9}),r=[!-~]{0,9}(,[a-z]+=.{0,5}){0,3}"),
)
FINALS = st.one_of(
    TOKENS, st.from_regex(rb"c=biws,r=abcserver(,[a-z]=.{0,5}){0,3},p=[A-Za-z0-9+/]{0,90}={0,3}")
)


@given(st.lists(TOKENS, max_size=2), st.lists(FINALS, max_size=2))
def test_arbitrary_bytes_never_log_in(firsts: list[bytes], finals: list[bytes]) -> None:
    """Each message is answered or raises AuthenticationError, also after a valid first one."""
    for messages in ((*firsts, *finals), (ALICE, *finals)):
        exchange = new_exchange()
        try:
            for message in messages:
                assert exchange.answer(message).startswith(b"r=")
        except AuthenticationError:
            pass
        assert exchange.user is None
