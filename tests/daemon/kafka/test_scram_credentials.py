"""DescribeUserScramCredentials and AlterUserScramCredentials: from a request to its effect."""

import logging
from dataclasses import dataclass
from types import SimpleNamespace
from typing import Any

import pytest
import trio

from authorizerd.acl.model import Operation
from authorizerd.acl.steps import finish
from authorizerd.actors import steps
from authorizerd.actors.errors import UpdateRefusedError
from authorizerd.daemon.kafka.credential_plan import SALT_BYTES_MAX
from authorizerd.image.changes import (
    CredentialAdded,
    CredentialRemoved,
    FeatureLevel,
    ScramCredential,
)
from authorizerd.protocol.errors import DecodeError
from authorizerd.protocol.kafka.api import ApiKey
from authorizerd.protocol.kafka.error_codes import ErrorCode
from authorizerd.protocol.kafka.messages import REQUEST_ITEMS_MAX
from authorizerd.protocol.kafka.server_connection import KafkaRequest
from authorizerd.protocol.records.scram import ScramMechanism, make_credential, salt_password
from tests.daemon.kafka_service import ALICE, ROOT, KafkaService, Start, on_cluster
from tests.support.kio_codec import decode_request, encode_request
from tests.support.turns import Turns

Result = tuple[str, int, str | None]
Fields = SimpleNamespace

SHA_256, SHA_512 = ScramMechanism.SCRAM_SHA_256, ScramMechanism.SCRAM_SHA_512
SALT = b"a salt of alice"
ITERATIONS = 4096
SALTED = salt_password(SHA_256, "alice-secret", SALT, ITERATIONS)
CREDENTIAL = make_credential(SHA_256, SALTED, SALT, ITERATIONS)
MAY_ALTER, MAY_DESCRIBE = on_cluster(Operation.ALTER), on_cluster(Operation.DESCRIBE)
LEVEL = FeatureLevel("metadata.version", 11)
BOB = CredentialAdded("bob", SHA_256, ScramCredential(b"s", b"k", b"v", 5000))
BOB_512 = CredentialAdded("bob", SHA_512, ScramCredential(b"s", b"k", b"v", 6000))
CAROL_512 = CredentialAdded("carol", SHA_512, ScramCredential(b"s", b"k", b"v", 7000))
FUTURE = CredentialAdded("dave", 3, ScramCredential(b"s", b"k", b"v", 8000))
NOT_AUTHORIZED = (ErrorCode.CLUSTER_AUTHORIZATION_FAILED, "Cluster authorization failed.")
NOT_READY = (ErrorCode.AUTHORIZER_NOT_READY, ErrorCode.AUTHORIZER_NOT_READY.text)
TWICE = (
    ErrorCode.DUPLICATE_RESOURCE, "A user credential cannot be altered twice in the same request",
)  # fmt: skip
ABSENT = (
    ErrorCode.RESOURCE_NOT_FOUND, "Attempt to delete a user credential that does not exist",
)  # fmt: skip
UNKNOWN = ErrorCode.UNSUPPORTED_SASL_MECHANISM, "Unknown SCRAM mechanism"
UNSUPPORTED = (
    ErrorCode.UNSUPPORTED_VERSION, "The current metadata.version does not support SCRAM",
)  # fmt: skip


def unacceptable(text: str) -> tuple[int, str]:
    return ErrorCode.UNACCEPTABLE_CREDENTIAL, text


def deletion(name: str, mechanism: int = SHA_256) -> Fields:
    return Fields(name=name, mechanism=mechanism)


def upsertion(
    name: str = "alice",
    mechanism: int = SHA_256,
    *,
    iterations: int = ITERATIONS,
    salt: bytes = SALT,
    salted: bytes = SALTED,
) -> Fields:
    return Fields(
        name=name, mechanism=mechanism, iterations=iterations, salt=salt, salted_password=salted
    )


async def alter(
    service: KafkaService,
    *upsertions: Fields,
    deletions: tuple[Fields, ...] = (),
    principal: str = ROOT,
) -> list[Result]:
    answer = await service.ask(
        ApiKey.ALTER_USER_SCRAM_CREDENTIALS,
        0,
        principal=principal,
        deletions=deletions,
        upsertions=upsertions,
    )
    return [(each.user, each.error_code, each.error_message) for each in answer.results]


@dataclass(frozen=True)
class Described:
    error: tuple[int, str | None]
    users: list[tuple[Any, ...]]


async def describe(
    service: KafkaService, *names: str, principal: str = ROOT, is_null: bool = False
) -> Described:
    """Return the error at the top; for each user, its mechanisms and iterations or its error."""
    answer = await service.ask(
        ApiKey.DESCRIBE_USER_SCRAM_CREDENTIALS,
        0,
        principal=principal,
        users=None if is_null else [Fields(name=name) for name in names],
    )
    return Described(
        (answer.error_code, answer.error_message),
        [
            (each.user, each.error_code, each.error_message)
            if each.error_code
            else (each.user, [(info.mechanism, info.iterations) for info in each.credential_infos])
            for each in answer.results
        ],
    )


@pytest.fixture
async def service(start: Start) -> KafkaService:
    """Return a service whose log has credentials of bob, carol and a future mechanism."""
    return await start(cluster_changes=(LEVEL, BOB, BOB_512, CAROL_512, FUTURE))


async def test_alterations_are_durable_and_applied_in_one_batch(service: KafkaService) -> None:
    """The log gets the keys, as in Kafka; the salted password is stored nowhere."""
    deleted = deletion("bob", SHA_512)
    assert await alter(service, upsertion(), deletions=(deleted,)) == [
        ("bob", 0, None), ("alice", 0, None),
    ]  # fmt: skip
    assert service.running.log.batches == [
        (CredentialRemoved("bob", SHA_512), CredentialAdded("alice", SHA_256, CREDENTIAL))
    ]
    credentials = service.running.applier.cluster.newest.credentials
    assert credentials["alice", SHA_256] == CREDENTIAL
    assert [mechanism for name, mechanism in credentials if name == "bob"] == [SHA_256]


async def test_credential_of_a_present_user_is_replaced(service: KafkaService) -> None:
    assert await alter(service, upsertion("bob", iterations=16_384)) == [("bob", 0, None)]
    assert (await describe(service, "bob")).users == [("bob", [(1, 16_384), (2, 6000)])]


BAD = [
    (upsertion(""), "", unacceptable("Username must not be empty")),
    (upsertion("u", 0), "u", UNKNOWN),
    (upsertion("u", 3), "u", UNKNOWN),
    (upsertion("u", -1), "u", UNKNOWN),
    (upsertion("u", iterations=4095), "u", unacceptable("Too few iterations")),
    (upsertion("u", iterations=-1), "u", unacceptable("Too few iterations")),
    (upsertion("u", iterations=16_385), "u", unacceptable("Too many iterations")),
    (upsertion("u", salt=b""), "u", unacceptable("The salt must have 1 to 1024 bytes")),
    (
        upsertion("u", salt=bytes(SALT_BYTES_MAX + 1)),
        "u",
        unacceptable("The salt must have 1 to 1024 bytes"),
    ),
    (
        upsertion("u", SHA_512),
        "u",
        unacceptable("The salted password of SCRAM-SHA-512 must have 64 bytes"),
    ),
    (
        upsertion("u", salted=b""),
        "u",
        unacceptable("The salted password of SCRAM-SHA-256 must have 32 bytes"),
    ),
    (deletion(""), "", unacceptable("Username must not be empty")),
    (deletion("bob", 9), "bob", UNKNOWN),
    (deletion("dave", 3), "dave", UNKNOWN),
    (deletion("nobody"), "nobody", ABSENT),
    (deletion("carol", SHA_256), "carol", ABSENT),
]


@pytest.mark.parametrize("length", [1, SALT_BYTES_MAX])
async def test_shortest_and_longest_salt_are_accepted(service: KafkaService, length: int) -> None:
    assert await alter(service, upsertion("u", salt=bytes(length))) == [("u", 0, None)]


@pytest.mark.parametrize(
    ("deletions", "upsertions", "user", "error"),
    [
        *(((), (bad,), user, error) for bad, user, error in BAD if hasattr(bad, "salt")),
        *(((bad,), (), user, error) for bad, user, error in BAD if not hasattr(bad, "salt")),
        ((deletion("bob"), deletion("bob", SHA_512)), (), "bob", TWICE),
        ((deletion("bob"), deletion("bob"), deletion("bob")), (), "bob", TWICE),
        ((deletion("bob"),), (upsertion("bob"),), "bob", TWICE),
        ((), (upsertion("bob"), upsertion("bob", salt=b"x")), "bob", TWICE),
        ((), (upsertion("bob"), upsertion("bob", SHA_512, salted=bytes(64))), "bob", TWICE),
        # The first error of a user counts.
        ((deletion("bob", 9), deletion("bob")), (upsertion("bob"),), "bob", UNKNOWN),
        ((deletion("bob"), deletion("bob", 9)), (), "bob", TWICE),
        ((), (upsertion("bob", 9), upsertion("bob")), "bob", UNKNOWN),
    ],
)
async def test_bad_item_is_refused_with_kafkas_text_and_others_succeed(
    service: KafkaService,
    deletions: tuple[Fields, ...],
    upsertions: tuple[Fields, ...],
    user: str,
    error: tuple[int, str],
) -> None:
    """A user that a request names twice has one result, too."""
    results = await alter(service, *upsertions, upsertion(), deletions=deletions)
    assert results == [(user, *error), ("alice", 0, None)]
    assert service.running.log.batches == [(CredentialAdded("alice", SHA_256, CREDENTIAL),)]


@pytest.mark.parametrize("features", [(), (FeatureLevel("metadata.version", 10),)])
async def test_log_below_metadata_version_3_5_gets_no_credentials(
    start: Start, features: tuple[FeatureLevel, ...]
) -> None:
    """Its Kafka nodes could not read them."""
    service = await start(cluster_changes=features)
    results = await alter(service, upsertion(), upsertion(""), deletions=(deletion("bob"),))
    assert results == [("bob", *UNSUPPORTED), ("alice", *UNSUPPORTED), ("", *UNSUPPORTED)]
    assert service.running.log.batches == []


async def test_empty_request_is_answered_without_a_write(service: KafkaService) -> None:
    assert await alter(service) == []
    assert service.running.log.batches == []


async def test_altering_requires_alter_on_the_cluster(start: Start) -> None:
    """Each user is refused once, whatever else is wrong with it."""
    service = await start(MAY_DESCRIBE, cluster_changes=(LEVEL, BOB))
    upsertions = upsertion(), upsertion(), upsertion("")
    results = await alter(service, *upsertions, deletions=(deletion("bob"),), principal=ALICE)
    assert results == [(user, *NOT_AUTHORIZED) for user in ("bob", "alice", "")]
    assert service.running.log.batches == []
    await service.create([MAY_ALTER])
    assert await alter(service, upsertion(), principal=ALICE) == [("alice", 0, None)]


async def test_describing_requires_describe_on_the_cluster(start: Start) -> None:
    """ALTER implies it. Without it, no user is revealed."""
    other = on_cluster(Operation.DESCRIBE_CONFIGS)
    service = await start(other, cluster_changes=(LEVEL, BOB))
    refused = NOT_AUTHORIZED[0], None
    assert await describe(service, "bob", "x", principal=ALICE) == Described(
        refused, [("bob", *refused), ("x", *refused)]
    )
    for is_null in (False, True):
        assert await describe(service, principal=ALICE, is_null=is_null) == Described(refused, [])
    for right in (MAY_DESCRIBE, MAY_ALTER):
        service = await start(right, cluster_changes=(LEVEL, BOB))
        described = await describe(service, "bob", principal=ALICE)
        assert described == Described((0, ""), [("bob", [(1, 5000)])])


@pytest.mark.parametrize("is_null", [False, True])
async def test_all_users_are_described_if_none_named(service: KafkaService, is_null: bool) -> None:
    """Each user appears once. Mechanisms that Kafka does not know yet are left out."""
    described = await describe(service, is_null=is_null)
    assert described.error == (0, "")
    assert sorted(described.users) == [
        ("bob", [(1, 5000), (2, 6000)]), ("carol", [(2, 7000)]),
    ]  # fmt: skip


async def test_named_users_are_described_in_order(service: KafkaService) -> None:
    """A repeated user and one without credentials get Kafka's errors."""
    names = ("carol", "x", "bob", "bob", "dave", "", "x" * 5000)
    absent = "Attempt to describe a user credential that does not exist: "
    twice = "Cannot describe SCRAM credentials for the same user twice in a single request: bob"
    not_found = ErrorCode.RESOURCE_NOT_FOUND
    assert (await describe(service, *names)).users == [
        ("carol", [(2, 7000)]),
        ("x", not_found, f"{absent}x"),
        ("bob", ErrorCode.DUPLICATE_RESOURCE, twice),
        ("dave", not_found, f"{absent}dave"),
        ("", not_found, absent),
        ("x" * 5000, not_found, f"{absent}{'x' * 5000}"[:4096]),
    ]


async def test_requests_are_refused_for_each_user_before_loading(unloaded: KafkaService) -> None:
    """A description is also refused as a whole, because it may name no user."""
    refused = await alter(
        unloaded, upsertion(), upsertion(), deletions=(deletion("bob"),), principal=ALICE
    )
    assert refused == [("bob", *NOT_READY), ("alice", *NOT_READY)]
    assert await describe(unloaded, "bob", principal=ALICE) == Described(
        NOT_READY, [("bob", *NOT_READY)]
    )
    await unloaded.load(cluster_changes=(LEVEL,))
    assert unloaded.running.log.appends == []


async def test_failed_write_is_reported_for_each_user(service: KafkaService) -> None:
    service.running.log.error = UpdateRefusedError("no disk space")
    results = await alter(service, upsertion(), upsertion("x"))
    error = ErrorCode.BROKER_NOT_AVAILABLE, "no disk space"
    assert results == [("alice", *error), ("x", *error)]


async def test_changes_that_exceed_one_batch_are_refused(service: KafkaService) -> None:
    """Users with other errors keep their own errors."""
    names = [str(number).rjust(30_000, "u") for number in range(300)]
    results = await alter(service, upsertion(""), *(upsertion(name) for name in names))
    error = ErrorCode.POLICY_VIOLATION, "Unable to perform excessively large batch operation."
    assert results == [
        ("", *unacceptable("Username must not be empty")), *((name, *error) for name in names),
    ]  # fmt: skip
    assert service.running.log.batches == []


async def test_most_users_that_a_request_may_name_are_changed_in_turns(
    service: KafkaService, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Other tasks run in between, also while the queue plans and applies the changes."""
    monkeypatch.setattr(steps, "TURN_SECONDS", 0)  # other tasks run after each step
    turns = Turns()
    async with trio.open_nursery() as nursery:
        nursery.start_soon(turns.run)
        upsertions = [upsertion(f"u{number}") for number in range(REQUEST_ITEMS_MAX)]
        results = await alter(service, *upsertions)
        assert {code for _, code, _ in results} == {0}
        (batch,) = service.running.log.batches
        assert len(batch) == len(results) == REQUEST_ITEMS_MAX
        assert turns.count > 3 * REQUEST_ITEMS_MAX / 64
        turns.count = 0
        assert len((await describe(service)).users) == REQUEST_ITEMS_MAX + 2
        assert turns.count > 2 * REQUEST_ITEMS_MAX / 64
        nursery.cancel_scope.cancel()


async def test_salted_password_appears_in_no_log_and_no_text(
    service: KafkaService, caplog: pytest.LogCaptureFixture
) -> None:
    """Anyone who has it can log in. The keys do not appear, either."""
    caplog.set_level(logging.DEBUG)
    marker = b"MARKER" * 5 + b"!!"
    assert len(marker) == len(SALTED)
    results = await alter(service, upsertion(salted=marker), upsertion("x", 9, salted=marker))
    asked = Fields(deletions=(), upsertions=(upsertion(salted=marker),))
    body = finish(encode_request(ApiKey.ALTER_USER_SCRAM_CREDENTIALS, 0, asked))
    request = KafkaRequest(
        api_key=ApiKey.ALTER_USER_SCRAM_CREDENTIALS,
        api_version=0,
        correlation_id=1,
        client_id=None,
        body=body,
    )
    with pytest.raises(DecodeError) as cut:
        finish(decode_request(ApiKey.ALTER_USER_SCRAM_CREDENTIALS, 0, body[:-5]))
    described = await describe(service)
    credentials = service.running.applier.cluster.newest.credentials
    shown = [results, request, cut.value, described, service.events, caplog.text, credentials]
    assert credentials["alice", SHA_256].iterations == ITERATIONS
    for text in map(repr, shown):
        assert "MARKER" not in text
        assert repr(credentials["alice", SHA_256].stored_key) not in text
    assert repr(request) == "KafkaRequest(ALTER_USER_SCRAM_CREDENTIALS, version=0)"
