"""Known and made-up SCRAM credentials."""

import base64
import hashlib
import hmac
import re
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace

import pytest
import trio
import trio.testing

from authorizerd.daemon.kafka.errors import InvalidCredentialsError
from authorizerd.daemon.kafka.login.login_credentials import LoginCredentials, derive_secret
from authorizerd.daemon.kafka.login.sasl_scram import ScramExchange
from authorizerd.image.changes import CredentialAdded, ScramCredential
from authorizerd.metadata.meta_properties import MetaProperties
from authorizerd.protocol.records.scram import SALT_BITS, ScramMechanism, encode_salt
from tests.support.sasl import SHA_256, SHA_512, LoadedCredentials, ScramTokens, credential_of

KAFKAS_SALT = re.compile(rb"[0-9a-z]{20,26}")
ALICE = credential_of("alice", "alice-secret", salt=encode_salt(2**SALT_BITS - 1))


def challenge(credentials: LoginCredentials, user: str, mechanism: ScramMechanism) -> bytes:
    """Return the answer to the user's first message."""
    return ScramExchange(mechanism, credentials.look_up, "server").answer(
        f"n,,n={user},r=abc".encode()
    )


@pytest.mark.parametrize("mechanism", ScramMechanism)
def test_unknown_users_are_challenged_like_known_ones(mechanism: ScramMechanism) -> None:
    """The parts of the answer have the same form, and each name has a different salt."""
    known = credential_of("alice", "alice-secret", mechanism, salt=encode_salt(2**129 + 7))
    credentials = LoadedCredentials(known)
    salts = set()
    for user in ("alice", "nobody", "Alice", "alice2"):
        answer = challenge(credentials, user, mechanism)
        nonce, salt, iterations = answer.split(b",")
        assert (nonce, iterations) == (b"r=abcserver", b"i=4096")
        assert KAFKAS_SALT.fullmatch(base64.b64decode(salt.removeprefix(b"s=")))
        salts.add(salt)
    assert len(salts) == 4


def test_unknown_user_has_the_same_salt_after_a_restart() -> None:
    """It depends on the user, the mechanism and the log directory, and on nothing else."""
    before = challenge(LoadedCredentials(), "nobody", SHA_256)
    assert challenge(LoadedCredentials(ALICE), "nobody", SHA_256) == before
    other = LoadedCredentials()
    assert challenge(other, "nobody", SHA_512) != before
    assert challenge(LoginCredentials(other.image, other.snapshot, b"x"), "nobody", SHA_256) != (
        before
    )


@pytest.mark.parametrize("mechanism", ScramMechanism)
@pytest.mark.parametrize("user", ["alice", "nobody", "bob"])
def test_unknown_user_fails_like_a_wrong_password(mechanism: ScramMechanism, user: str) -> None:
    """The failure comes with the second message, and has the same text."""
    other = SHA_512 if mechanism is SHA_256 else SHA_256
    credentials = LoadedCredentials(
        credential_of("alice", "alice-secret", mechanism),
        credential_of("bob", "wrong", other),  # known to another mechanism only
    )
    exchange = ScramExchange(mechanism, credentials.look_up, "server")
    tokens = ScramTokens(user, "wrong", mechanism)
    final = tokens.final(exchange.answer(tokens.first()))
    with pytest.raises(InvalidCredentialsError, match=r"^unknown user or wrong password$"):
        exchange.answer(final)


@pytest.mark.parametrize("mechanism", ScramMechanism)
def test_unknown_user_costs_the_work_of_a_known_one(
    monkeypatch: pytest.MonkeyPatch, mechanism: ScramMechanism
) -> None:
    """Both messages cost the same calls, with equally long values."""
    other = SHA_512 if mechanism is SHA_256 else SHA_256
    salt = LoadedCredentials().look_up("nobod", mechanism).credential.salt  # made up
    credentials = LoadedCredentials(
        credential_of("alice", "alice-secret", mechanism, salt=salt),
        credential_of("bobby", "wrong", other),  # known to another mechanism only
    )
    work: dict[str, list[object]] = {}
    for user in ("alice", "bobby", "nobod"):
        calls = work.setdefault(user, [])
        exchange = ScramExchange(mechanism, credentials.look_up, "server")
        tokens = ScramTokens(user, "wrong", mechanism)
        with counted_calls(monkeypatch, calls):
            answer = exchange.answer(tokens.first())
        final = tokens.final(answer)
        with counted_calls(monkeypatch, calls), pytest.raises(InvalidCredentialsError):
            exchange.answer(final)
    assert work["alice"] == work["bobby"] == work["nobod"]
    assert len(work["alice"]) >= 8


@contextmanager
def counted_calls(monkeypatch: pytest.MonkeyPatch, calls: list[object]) -> Iterator[None]:
    """Record each call that hashes or compares, with the sizes of its bytes."""

    def recording(name: str, call: Callable[..., object]) -> Callable[..., object]:
        def record(*values: object) -> object:
            calls.append((name, *(len(each) for each in values if isinstance(each, bytes))))
            return call(*values)

        return record

    with monkeypatch.context() as patch:
        for module, name in ((hmac, "digest"), (hmac, "compare_digest"), (hashlib, "new")):
            patch.setattr(module, name, recording(name, getattr(module, name)))
        yield


def test_nobody_logs_in_with_a_made_up_credential(monkeypatch: pytest.MonkeyPatch) -> None:
    """Even a client that knows the made-up keys cannot log in."""
    credentials = LoadedCredentials()
    alice = credential_of("alice", "guessed").credential
    monkeypatch.setattr(credentials, "_make_up", lambda user, mechanism: alice)
    exchange = ScramExchange(SHA_256, credentials.look_up, "server")
    tokens = ScramTokens("alice", "guessed")
    final = tokens.final(exchange.answer(tokens.first()))
    with pytest.raises(InvalidCredentialsError):
        exchange.answer(final)


@pytest.mark.parametrize(
    "credential",
    [
        ScramCredential(b"salt", bytes(32), bytes(32), 4095),
        ScramCredential(b"salt", bytes(32), bytes(32), -1),
        ScramCredential(b"salt", bytes(31), bytes(32), 4096),
        ScramCredential(b"salt", bytes(32), bytes(64), 4096),
        ScramCredential(b"salt", b"", b"", 4096),
    ],
)
def test_unusable_credential_counts_as_missing(credential: ScramCredential) -> None:
    """It has too few iterations, or keys of another mechanism."""
    credentials = LoadedCredentials(CredentialAdded("alice", SHA_256, credential))
    assert not credentials.look_up("alice", SHA_256).is_known
    assert credentials.look_up("alice", SHA_256) == LoadedCredentials().look_up("alice", SHA_256)


def test_secret_belongs_to_the_log_directory() -> None:
    """Without a directory id, it is random."""
    properties = MetaProperties("cluster", 1, "directory")
    secret = derive_secret(properties)
    assert derive_secret(MetaProperties("cluster", 2, "directory")) == secret
    assert derive_secret(MetaProperties("other", 1, "directory")) != secret
    assert derive_secret(MetaProperties("cluster", 1, "other")) != secret
    unnamed = MetaProperties("cluster", 1, "")
    assert derive_secret(unnamed) != derive_secret(unnamed)


def test_secret_of_a_copy_does_not_change_once_the_cluster_is_known() -> None:
    copy = MetaProperties("", 1, "", secret="s")
    assert derive_secret(copy) == derive_secret(replace(copy, cluster_id="cluster"))
    assert derive_secret(copy) != derive_secret(replace(copy, secret="t"))
    assert "'s'" not in repr(copy)


async def test_wait_ends_once_the_log_is_loaded(nursery: trio.Nursery) -> None:
    credentials = LoadedCredentials(is_loaded=False)
    waited: list[bool] = []

    async def wait() -> None:
        await credentials.wait_until_loaded()
        waited.append(credentials.look_up("alice", SHA_256).is_known)

    nursery.start_soon(wait)
    await trio.testing.wait_all_tasks_blocked()
    assert (waited, credentials.are_loaded) == ([], False)
    credentials.load(ALICE)
    await trio.testing.wait_all_tasks_blocked()
    assert (waited, credentials.are_loaded) == ([True], True)
