"""The cluster client: which node it asks, what it retries, and when it gives up."""

from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from dataclasses import replace
from threading import get_ident

import pytest
import trio

from authorizerd.acl.model import AclFilter
from authorizerd.acl.steps import finish
from authorizerd.kafka_client import log_in
from authorizerd.kafka_client.address import Address
from authorizerd.kafka_client.client import ClientSettings, KafkaClient
from authorizerd.kafka_client.errors import (
    Cause,
    ConnectionFailedError,
    RequestFailedError,
    UnknownOutcomeError,
)
from authorizerd.kafka_client.log_in import Credentials, Mechanism
from authorizerd.protocol.framing import frame
from authorizerd.protocol.kafka.api import ApiKey
from authorizerd.protocol.kafka.error_codes import ApiError, ErrorCode
from authorizerd.protocol.kafka.server_connection import KafkaRequest
from authorizerd.protocol.records.scram import ScramMechanism, salt_password
from tests.daemon.kafka_cluster import (
    HANG_UP,
    SERVED,
    SILENCE,
    KafkaCluster,
    addresses,
    answer,
    cluster_of,
    described,
    without,
)
from tests.kafka_client.calls import describe_acls
from tests.support.kio_codec import decode_request
from tests.support.scram_server import ScramServer

FIRST, SECOND, THIRD = addresses(3)
NOT_CONTROLLER = answer(error_code=41, error_message=None, resources=())
NOT_READY = answer(error_code=801, error_message="Not loaded.", resources=())
ALICE = Credentials(mechanism=Mechanism.PLAIN, username="alice", password="alice-secret")
virtual_time = pytest.mark.usefixtures("autojump_clock")


@pytest.fixture
async def cluster(nursery: trio.Nursery) -> KafkaCluster:
    return KafkaCluster(nursery)


class Client(KafkaClient):
    """A client that describes ACLs and keeps its warnings."""

    def __init__(self, cluster: KafkaCluster, settings: ClientSettings) -> None:
        self.warned: list[str] = []
        super().__init__(settings, self.warned.append, cluster.connect)

    async def describe(self, filter: AclFilter | None = None) -> object:
        with trio.fail_after(100):
            return await self.request(
                describe_acls(filter),
                name="describeAcls",
                errors=lambda found: [found] if isinstance(found, ApiError) else [],
            )


@asynccontextmanager
async def connected(
    cluster: KafkaCluster,
    *bootstrap: Address,
    to_controllers: bool = False,
    credentials: Credentials | None = None,
    request_timeout_ms: int = 30_000,
) -> AsyncIterator[Client]:
    settings = ClientSettings(
        bootstrap=bootstrap or (FIRST,),
        to_controllers=to_controllers,
        credentials=credentials,
        request_timeout_ms=request_timeout_ms,
    )
    async with Client(cluster, settings) as client:
        yield client


async def refusal(client: Client, filter: AclFilter | None = None) -> RequestFailedError:
    with pytest.raises(RequestFailedError) as error:
        await client.describe(filter)
    return error.value


@virtual_time
async def test_connection_is_reused_and_closed(cluster: KafkaCluster) -> None:
    """ApiVersions comes first; requests follow on the same connection."""
    node = cluster.add(FIRST, described(), described())
    async with connected(cluster) as client:
        assert await client.describe() == []
        assert await client.describe() == []
        assert node.closed == 0
    await trio.sleep(1)
    assert node.names == ["API_VERSIONS 4", "DESCRIBE_ACLS 3", "DESCRIBE_ACLS 3"]
    assert {request.client_id for request in node.asked} == {"adminclient-1"}
    assert (cluster.tried, node.closed, client.warned) == ([FIRST], 1, [])


@virtual_time
async def test_client_of_one_node_has_its_own_connection(cluster: KafkaCluster) -> None:
    first, second = (cluster.add(address, described(), described()) for address in (FIRST, SECOND))
    async with connected(cluster, FIRST) as client:
        await client.describe()
        async with client.at(SECOND) as other:
            await other.describe()
        await trio.sleep(1)
        assert (first.closed, second.closed) == (0, 1)
        await client.describe()
    assert cluster.tried == [FIRST, SECOND]
    assert (len(first.names), len(second.names)) == (3, 2)


@pytest.mark.parametrize(
    ("api", "theirs", "asked"),
    [
        (ApiKey.DESCRIBE_ACLS, (1, 1), ["DESCRIBE_ACLS 1"]),
        (ApiKey.DESCRIBE_ACLS, (0, 2), ["DESCRIBE_ACLS 2"]),
        (ApiKey.DESCRIBE_ACLS, (2, 3), ["DESCRIBE_ACLS 3"]),
        (ApiKey.DESCRIBE_ACLS, (1, 9), ["DESCRIBE_ACLS 3"]),
        # It answers an unknown version of ApiVersions in version 0 (KIP-511).
        (ApiKey.API_VERSIONS, (0, 2), ["API_VERSIONS 2", "DESCRIBE_ACLS 3"]),
    ],
)
async def test_highest_common_version_is_used(
    cluster: KafkaCluster, api: ApiKey, theirs: tuple[int, int], asked: list[str]
) -> None:
    node = cluster.add(FIRST, described(), served={**SERVED, api: theirs})
    async with connected(cluster) as client:
        assert await client.describe() == []
    assert node.names == ["API_VERSIONS 4", *asked]


@pytest.mark.parametrize(
    ("api", "theirs"),
    [
        # Version 0 of the ACL requests, which lacks prefixes, counts as unserved.
        (ApiKey.DESCRIBE_ACLS, {ApiKey.DESCRIBE_ACLS: (0, 0)}),
        (ApiKey.DESCRIBE_ACLS, {ApiKey.DESCRIBE_ACLS: (4, 5)}),
        (ApiKey.DESCRIBE_ACLS, {}),
        # A controller's listener. Kafka's client requests metadata, too.
        (ApiKey.METADATA, {}),
    ],
)
async def test_unserved_api_fails_at_once(
    cluster: KafkaCluster, api: ApiKey, theirs: dict[ApiKey, tuple[int, int]]
) -> None:
    cluster.add(FIRST, served={**without(api), **theirs})
    async with connected(cluster) as client:
        said = str(await refusal(client))
    assert said == f"UNSUPPORTED_VERSION: The node does not support {api.name}"


def sasl(request: KafkaRequest) -> object:
    return finish(decode_request(request.api_key, request.api_version, request.body))


async def test_plain_log_in_precedes_requests(cluster: KafkaCluster) -> None:
    """Source: RFC 4616."""
    shaken = answer(error_code=0, mechanisms=("PLAIN",))
    let_in = answer(error_code=0, error_message=None, auth_bytes=b"", session_lifetime=None)
    let_in.session_lifetime = let_in.throttle_time
    node = cluster.add(FIRST, shaken, let_in, described())
    async with connected(cluster, credentials=ALICE) as client:
        await client.describe()
    assert node.names == [
        "API_VERSIONS 4",
        "SASL_HANDSHAKE 1",
        "SASL_AUTHENTICATE 2",
        "DESCRIBE_ACLS 3",
    ]
    assert getattr(sasl(node.asked[1]), "mechanism", None) == "PLAIN"
    assert getattr(sasl(node.asked[2]), "auth_bytes", None) == b"\0alice\0alice-secret"
    assert "secret" not in repr(ALICE)


@pytest.mark.parametrize("mechanism", [Mechanism.SCRAM_SHA_256, Mechanism.SCRAM_SHA_512])
@pytest.mark.parametrize("password", ["alice-secret", "\u00aa\u2168 e\u0301"])
async def test_scram_log_in_precedes_requests(
    cluster: KafkaCluster,
    mechanism: Mechanism,
    password: str,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Kafka uses a password's UTF-8 unchanged. A thread hashes it, because hashing takes long."""
    threads: list[int] = []

    def salt(kind: ScramMechanism, text: str, salt: bytes, iterations: int) -> bytes:
        threads.append(get_ident())
        return salt_password(kind, text, salt, iterations)

    monkeypatch.setattr(log_in, "salt_password", salt)
    server = ScramServer(ScramMechanism[mechanism.name], password)
    node = cluster.add(FIRST, *server.answers, described())
    credentials = Credentials(mechanism=mechanism, username="alice", password=password)
    async with connected(cluster, credentials=credentials) as client:
        assert await client.describe() == []
    assert node.names[1:] == [
        "SASL_HANDSHAKE 1",
        "SASL_AUTHENTICATE 2",
        "SASL_AUTHENTICATE 2",
        "DESCRIBE_ACLS 3",
    ]
    assert getattr(sasl(node.asked[1]), "mechanism", None) == mechanism
    assert threads
    assert get_ident() not in threads


@pytest.mark.parametrize(
    ("forged", "said"),
    [
        (b"v=AAAA", "the server's signature is wrong: it does not know this user's credential"),
        (b"", "the server's last SCRAM message is malformed"),
    ],
)
async def test_impostor_ends_the_request(cluster: KafkaCluster, forged: bytes, said: str) -> None:
    """The impostor accepts any proof, but cannot sign."""
    server = ScramServer(ScramMechanism.SCRAM_SHA_256, "alice-secret", lambda _: forged)
    node = cluster.add(FIRST, *server.answers, described())
    credentials = replace(ALICE, mechanism=Mechanism.SCRAM_SHA_256)
    async with connected(cluster, credentials=credentials) as client:
        error = await refusal(client)
    assert error.cause is Cause.IMPOSTOR
    assert str(error).startswith(f"SASL_AUTHENTICATION_FAILED: host0:9000: {said}")
    assert node.names[-1] == "SASL_AUTHENTICATE 2"


@pytest.mark.parametrize(
    ("answers", "said"),
    [
        ([answer(error_code=33, mechanisms=("SCRAM-SHA-256", "GSSAPI"))],
         "UNSUPPORTED_SASL_MECHANISM: Client SASL mechanism 'PLAIN' not enabled in the server, "
         "enabled mechanisms are [SCRAM-SHA-256, GSSAPI]"),
        ([answer(error_code=34, mechanisms=())],
         "ILLEGAL_SASL_STATE: Unexpected handshake request with client mechanism PLAIN, "
         "enabled mechanisms are []"),
        (
            [
                answer(error_code=0, mechanisms=("PLAIN",)),
                answer(error_code=58,
                       error_message="Authentication failed: Invalid username or password",
                       auth_bytes=b"", session_lifetime=answer().throttle_time),
            ],
            "SASL_AUTHENTICATION_FAILED: Authentication failed: Invalid username or password",
        ),
    ],
)  # fmt: skip
async def test_rejected_log_in_is_not_retried(
    cluster: KafkaCluster, answers: Sequence[object], said: str
) -> None:
    """Nor tried at other nodes, as in Kafka's client."""
    cluster.add(FIRST, *answers)
    cluster.add(SECOND)
    async with connected(cluster, FIRST, SECOND, credentials=ALICE) as client:
        assert str(await refusal(client)) == said
    assert cluster.tried == [FIRST]


async def test_next_bootstrap_server_replaces_an_unreachable_one(cluster: KafkaCluster) -> None:
    cluster.add(SECOND, described())
    async with connected(cluster, FIRST, SECOND) as client:
        assert await client.describe() == []
        assert client.warned == ["host0:9000: Connection refused"]
    assert cluster.tried == [FIRST, SECOND]


@virtual_time
async def test_server_that_does_not_connect_in_time_is_skipped(cluster: KafkaCluster) -> None:
    """After 10 seconds, as in Kafka's client."""

    async def connect(address: Address) -> trio.abc.HalfCloseableStream:
        if address == FIRST:
            await trio.sleep_forever()
        return await KafkaCluster.connect(cluster, address)

    cluster.connect = connect  # type: ignore[method-assign]
    cluster.add(SECOND, described())
    async with connected(cluster, FIRST, SECOND) as client:
        assert await client.describe() == []
        assert client.warned == ["host0:9000: not connected within 10000 ms"]
    assert trio.current_time() == pytest.approx(10, abs=0.1)


@virtual_time
@pytest.mark.parametrize(
    ("given", "warning", "probe"),
    [
        (SILENCE, "no answer within 5000 ms", []),
        (b"HTTP/1.1 400 Bad Request\r\n\r\n",
         "expected a Kafka response: expected a frame size from 0 to ", []),
        (frame(b"\0\0\0\x63\0"),
         "expected a Kafka response: no request has correlation id 99", []),
        (frame(b"\0\0\0\1\0\0"), "expected a Kafka response: ", []),
        # A server that shuts down costs one attempt.
        (HANG_UP, "the server closed the connection without an answer",
         ["API_VERSIONS 4", "SASL_HANDSHAKE 1"]),
    ],
)  # fmt: skip
async def test_broken_connection_is_replaced(
    cluster: KafkaCluster, given: object, warning: str, probe: list[str]
) -> None:
    """The request is repeated, on another node if there is one."""
    first = cluster.add(FIRST, given, given)
    second = cluster.add(SECOND, described())
    async with connected(cluster, FIRST, SECOND, request_timeout_ms=5000) as client:
        assert await client.describe() == []
        assert len(client.warned) == 1
        assert client.warned[0].startswith(f"host0:9000: {warning}")
    assert first.names == ["API_VERSIONS 4", "DESCRIBE_ACLS 3", *probe]
    assert second.names == ["API_VERSIONS 4", "DESCRIBE_ACLS 3"]


@virtual_time
@pytest.mark.parametrize(
    ("answers", "reason"),
    [
        ([], "host0:9000: Connection refused; host1:9001: Connection refused"),
        ([HANG_UP] * 99, "host0:9000: the server closed the connection without an answer"),
        ([b"HTTP/1.1 400 Bad Request\r\n\r\n"] * 99, "host0:9000: expected a Kafka response: "),
    ],
)
async def test_unreachable_servers_fail_within_two_seconds(
    cluster: KafkaCluster, answers: list[object], reason: str
) -> None:
    if answers:
        cluster.add(FIRST, *answers)
    bootstrap = (FIRST,) if answers else (FIRST, SECOND)
    async with connected(cluster, *bootstrap) as client:
        error = await refusal(client)
    assert error.cause is Cause.UNREACHABLE
    assert str(error).removeprefix("NETWORK_EXCEPTION: ").startswith(reason)
    assert trio.current_time() < 2


@virtual_time
async def test_only_consecutive_refusals_end_a_request(cluster: KafkaCluster) -> None:
    """A starting server may refuse often."""
    refusals = 0

    async def connect(address: Address) -> trio.abc.HalfCloseableStream:
        nonlocal refusals
        refusals += 1
        if refusals == 12:
            cluster.add(FIRST, described())
        elif refusals % 4 == 0:
            raise ConnectionFailedError(f"{address}: No route to host")
        return await KafkaCluster.connect(cluster, address)

    cluster.connect = connect  # type: ignore[method-assign]
    async with connected(cluster) as client:
        assert await client.describe() == []


def log_in_wanted(code: int) -> list[object]:
    """Return a SASL listener's answers to two connections. The second one tries PLAIN."""
    return [HANG_UP, answer(error_code=code, mechanisms=("PLAIN",))]


@pytest.mark.parametrize("to_controllers", [False, True])
@pytest.mark.parametrize("code", [ErrorCode.NONE, ErrorCode.UNSUPPORTED_SASL_MECHANISM])
async def test_listener_that_requires_a_log_in_is_named_at_once(
    cluster: KafkaCluster, code: ErrorCode, to_controllers: bool
) -> None:
    """It answers ApiVersions, closes at the first request, and supports SaslHandshake."""
    node = cluster.add(FIRST, *log_in_wanted(code))
    async with connected(cluster, to_controllers=to_controllers) as client:
        error = await refusal(client)
    assert error.cause is Cause.LOG_IN_REQUIRED
    expected = "host0:9000: the listener expects SASL_PLAINTEXT, but the client uses PLAINTEXT"
    assert expected in str(error)
    assert node.names[2:] == ["API_VERSIONS 4", "SASL_HANDSHAKE 1"]


@virtual_time
async def test_listener_without_sasl_does_not_count_as_requiring_a_log_in(
    cluster: KafkaCluster,
) -> None:
    """It answers SaslHandshake with ILLEGAL_SASL_STATE."""
    cluster.add(FIRST, *log_in_wanted(ErrorCode.ILLEGAL_SASL_STATE), described())
    async with connected(cluster) as client:
        assert await client.describe() == []


@virtual_time
async def test_silent_server_fails_after_the_api_timeout(cluster: KafkaCluster) -> None:
    """With the text of Kafka's client. Each warning comes once."""
    cluster.add(FIRST, *[SILENCE] * 1000)
    async with connected(cluster) as client:
        assert str(await refusal(client)) == (
            "REQUEST_TIMED_OUT: Timed out waiting for a node assignment. Call: describeAcls"
        )
        assert len(client.warned) == 1
    assert trio.current_time() == pytest.approx(60, abs=0.1)
    assert len(cluster.tried) < 100


@virtual_time
async def test_interrupted_request_leaves_no_answer_behind(cluster: KafkaCluster) -> None:
    """The next request is sent on a new connection."""
    node = cluster.add(FIRST, SILENCE, described())
    async with connected(cluster) as client:
        with trio.move_on_after(1):
            await client.describe()
        assert await client.describe() == []
    assert node.names.count("API_VERSIONS 4") == 2


async def test_server_error_is_raised_and_the_connection_kept(cluster: KafkaCluster) -> None:
    denied = answer(error_code=31, error_message="No.", resources=())
    node = cluster.add(FIRST, denied, described())
    async with connected(cluster) as client:
        assert str(await refusal(client)) == "CLUSTER_AUTHORIZATION_FAILED: No."
        assert await client.describe() == []
    assert node.names.count("API_VERSIONS 4") == 1


@virtual_time
async def test_authorizer_that_is_not_ready_is_asked_again(cluster: KafkaCluster) -> None:
    """There is one warning. If another server is ready, it answers."""
    cluster.add(FIRST, NOT_READY, NOT_READY, described())
    async with connected(cluster) as client:
        assert await client.describe() == []
        assert client.warned == ["AUTHORIZER_NOT_READY: Not loaded; retrying"]
    cluster.add(SECOND, NOT_READY)
    cluster.add(THIRD, described())
    async with connected(cluster, SECOND, THIRD) as client:
        assert await client.describe() == []


@virtual_time
async def test_authorizer_that_stays_not_ready_fails_after_the_api_timeout(
    cluster: KafkaCluster,
) -> None:
    """The error is the server's. A controller that does not name itself counts like any other."""
    for to_controllers, refused in ((False, NOT_READY), (True, cluster_of(-1, error=801))):
        cluster.add(FIRST, *[refused] * 100)
        started = trio.current_time()
        async with connected(cluster, to_controllers=to_controllers) as client:
            assert str(await refusal(client)).startswith("AUTHORIZER_NOT_READY: ")
        assert trio.current_time() - started == 60


async def test_too_long_string_fails_and_is_not_sent(cluster: KafkaCluster) -> None:
    node = cluster.add(FIRST)
    async with connected(cluster) as client:
        said = str(await refusal(client, AclFilter(resource_name="a" * 40_000)))
    assert said == "INVALID_REQUEST: expected a string of at most 32767 bytes, found 40000"
    assert node.names == ["API_VERSIONS 4"]


@virtual_time
async def test_active_controller_is_asked(cluster: KafkaCluster) -> None:
    """Any controller names it. One connection stays open."""
    first = cluster.add(FIRST, cluster_of(2, (1, FIRST), (2, SECOND)))
    second = cluster.add(SECOND, described(), described())
    async with connected(cluster, FIRST, to_controllers=True) as client:
        assert await client.describe() == []
        assert await client.describe() == []
        await trio.sleep(1)
        assert (first.closed, second.closed) == (1, 0)
    assert first.names == ["API_VERSIONS 4", "DESCRIBE_CLUSTER 2"]
    assert second.names == ["API_VERSIONS 4", "DESCRIBE_ACLS 3", "DESCRIBE_ACLS 3"]
    assert first.asked[1].body == b"\0\2\0\0"


async def test_active_controller_is_asked_on_the_same_connection(cluster: KafkaCluster) -> None:
    cluster.add(FIRST, cluster_of(1, (1, FIRST)), described())
    async with connected(cluster, FIRST, to_controllers=True) as client:
        assert await client.describe() == []
    assert cluster.tried == [FIRST]


@virtual_time
async def test_inactive_controller_is_left(cluster: KafkaCluster) -> None:
    """After NOT_CONTROLLER, or if none is active, the client searches again."""
    cluster.add(
        FIRST, cluster_of(2, (2, SECOND)), cluster_of(-1), cluster_of(3, (2, SECOND), (3, THIRD))
    )
    cluster.add(SECOND, NOT_CONTROLLER)
    cluster.add(THIRD, described())
    async with connected(cluster, FIRST, to_controllers=True) as client:
        assert await client.describe() == []
        assert client.warned == [
            "host1:9001 is not the active controller",
            "host0:9000: no controller is active",
        ]


async def test_broker_is_rejected_as_a_controller(cluster: KafkaCluster) -> None:
    cluster.add(FIRST, cluster_of(-1, error=114, text="The wrong type."))
    async with connected(cluster, FIRST, to_controllers=True) as client:
        assert str(await refusal(client)) == "MISMATCHED_ENDPOINT_TYPE: The wrong type."


async def serve_tcp(cluster: KafkaCluster, nursery: trio.Nursery) -> Address:
    [listener] = await trio.open_tcp_listeners(0, host="127.0.0.1")
    address = Address("127.0.0.1", listener.socket.getsockname()[1])
    node = cluster.add(address, described())
    nursery.start_soon(trio.serve_listeners, node.serve, [listener])
    return address


async def test_server_is_reached_over_tcp(cluster: KafkaCluster, nursery: trio.Nursery) -> None:
    """After one that refuses and one that cannot be resolved."""
    address = await serve_tcp(cluster, nursery)
    with trio.socket.socket() as bound:
        await bound.bind(("127.0.0.1", 0))
        refusing = Address("127.0.0.1", bound.getsockname()[1])
        nameless = Address("a" * 64, 1)
        warned: list[str] = []
        settings = ClientSettings(bootstrap=[refusing, nameless, address])
        async with KafkaClient(settings, warned.append) as client:
            assert await client.can_resolve()
            assert await Client.describe(client) == []  # type: ignore[arg-type]
    assert [text.rpartition(": ")[2] for text in warned] == [
        "label too long)",
        "Connection refused",
    ]
    nursery.cancel_scope.cancel()


async def test_unresolvable_hosts_are_detected() -> None:
    """One resolvable host is enough."""
    nameless = Address("a" * 64, 1)
    for bootstrap, known in (([nameless], False), ([nameless, Address("127.0.0.1", 1)], True)):
        async with KafkaClient(ClientSettings(bootstrap=bootstrap), lambda _: None) as client:
            assert await client.can_resolve() is known


def test_ipv6_address_is_written_in_brackets() -> None:
    assert str(Address("::1", 9092)) == "[::1]:9092"
    assert str(Address("localhost", 9092)) == "localhost:9092"


async def describe_once(client: Client) -> object:
    with trio.fail_after(100):
        return await client.request_once(describe_acls(), name="describeAcls")


@virtual_time
@pytest.mark.parametrize("given", [HANG_UP, SILENCE, frame(b"\0\0\0\x63\0")])
async def test_request_of_unknown_outcome_is_not_repeated(
    cluster: KafkaCluster, given: object
) -> None:
    """It may have been carried out. A later call uses a new connection."""
    node = cluster.add(FIRST, given, described())
    cluster.add(SECOND, described())
    async with connected(cluster, FIRST, SECOND) as client:
        with pytest.raises(UnknownOutcomeError, match="host0:9000"):
            await describe_once(client)
        assert node.names == ["API_VERSIONS 4", "DESCRIBE_ACLS 3"]
        assert await client.describe() == []
    assert node.names.count("API_VERSIONS 4") == 2


@virtual_time
async def test_connecting_is_repeated_for_a_request_that_is_sent_once(
    cluster: KafkaCluster,
) -> None:
    node = cluster.add(SECOND, described())
    async with connected(cluster, FIRST, SECOND) as client:
        assert await describe_once(client) == []
    assert cluster.tried == [FIRST, SECOND]
    assert node.names.count("DESCRIBE_ACLS 3") == 1


@virtual_time
async def test_request_that_cannot_be_sent_is_no_unknown_outcome(cluster: KafkaCluster) -> None:
    async with connected(cluster) as client:
        with pytest.raises(RequestFailedError):
            await describe_once(client)


@virtual_time
async def test_error_in_the_answer_is_left_to_the_caller_of_a_request_that_is_sent_once(
    cluster: KafkaCluster,
) -> None:
    node = cluster.add(FIRST, NOT_CONTROLLER)
    async with connected(cluster) as client:
        assert await describe_once(client) == ApiError(ErrorCode.NOT_CONTROLLER, None)
    assert len(node.names) == 2
