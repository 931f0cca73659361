"""ApiVersions over real sockets: features, and clients at the wrong node. The bytes are Kafka's."""

from functools import partial

import pytest

from authorizerd.config.jaas import PlainUsers
from authorizerd.daemon.kafka.api_versions import ApiVersionsHandler
from authorizerd.image.features import SUPPORTED_FEATURES
from authorizerd.protocol.framing import frame
from authorizerd.protocol.kafka.api import ApiKey
from authorizerd.protocol.kafka.error_codes import ErrorCode
from tests.daemon.kafka_listener_service import HEADER, SOFTWARE, USERS, Client, Listen, versions_of

NONE, MISROUTED, INVALID = (
    ErrorCode.NONE,
    ErrorCode.REBOOTSTRAP_REQUIRED,
    ErrorCode.INVALID_REQUEST,
)
FINALIZED = {"metadata.version": 33, "share.version": 2}
NEWEST = 5
"""The version of ApiVersions that Kafka 4.4 sends first."""

# What ApiVersionsRequestData and ApiVersionsRequest.getErrorResponse of Kafka 4.4.0 write.
JAVA_WITHOUT_IDS = "126170616368652d6b61666b612d6a61766106342e342e3000ffffffff00"
JAVA_WITH_IDS = "126170616368652d6b61666b612d6a61766106342e342e300a636c75737465722d310000000700"
JAVA_REBOOTSTRAP = "0081010000000000"


loaded = partial(versions_of, features=FINALIZED, offset=9)


async def send(client: Client, body: str) -> str:
    """Send ApiVersions with the tags of its header; return the body of the answer."""
    await client.send(
        frame(HEADER.pack(ApiKey.API_VERSIONS, NEWEST, 1, -1), b"\0", bytes.fromhex(body))
    )
    return (await client.receive())[4:].hex()


@pytest.mark.parametrize("version", range(3, NEWEST + 1))
@pytest.mark.parametrize("is_controller", [False, True])
async def test_features_are_those_of_the_applied_state(
    listen: Listen, version: int, is_controller: bool
) -> None:
    """Before version 4, a lowest level of 0 cannot be told (KAFKA-17011)."""
    versions = loaded(is_controller=is_controller)
    client = await (await listen(versions=versions)).connect()
    told = await client.ask(ApiKey.API_VERSIONS, version, **SOFTWARE)
    supported = {
        each.name: (each.min_version, each.max_version) for each in told.supported_features
    }
    assert supported == {
        name: levels for name, levels in SUPPORTED_FEATURES.items() if levels[0] or version > 3
    }
    assert told.finalized_features_epoch == 9
    assert {
        each.name: (each.min_version_level, each.max_version_level)
        for each in told.finalized_features
    } == {name: (level, level) for name, level in FINALIZED.items()}
    assert not told.zk_migration_ready


@pytest.mark.parametrize(
    "versions",
    [loaded(offset=None), loaded(features={}), loaded(features={"share.version": 2})],
    ids=["nothing is loaded", "no features", "no metadata.version"],
)
async def test_unknown_features_have_no_epoch(listen: Listen, versions: ApiVersionsHandler) -> None:
    """The supported features do not depend on the log."""
    client = await (await listen(versions=versions)).connect()
    told = await client.ask(ApiKey.API_VERSIONS, 4, **SOFTWARE)
    assert (told.finalized_features_epoch, told.finalized_features) == (-1, ())
    assert len(told.supported_features) == len(SUPPORTED_FEATURES)


@pytest.mark.parametrize(
    ("asked", "versions", "error"),
    [
        ((None, -1), loaded(), NONE),
        (("cluster-1", 7), loaded(), NONE),
        (("cluster-1", 8), loaded(), MISROUTED),
        (("cluster-2", 7), loaded(), MISROUTED),
        (("", 7), loaded(), MISROUTED),
        (("cluster-2", 8), loaded(is_controller=True), NONE),
        # A follower learns its cluster's id.
        (("cluster-2", 7), loaded(cluster_id=""), NONE),
        (("cluster-2", 8), loaded(cluster_id=""), MISROUTED),
        ((None, 7), loaded(), INVALID),
        (("cluster-1", -1), loaded(), INVALID),
    ],
)
async def test_client_that_means_another_node_must_rebootstrap(
    listen: Listen, asked: tuple[str | None, int], versions: ApiVersionsHandler, error: int
) -> None:
    """KIP-1242, with Kafka's answers; the connection stays open."""
    client = await (await listen(versions=versions)).connect()
    cluster_id, node_id = asked
    told = await client.ask(
        ApiKey.API_VERSIONS, NEWEST, **SOFTWARE | {"cluster_id": cluster_id, "node_id": node_id}
    )
    assert told.error_code == error
    if error:
        nothing = (), (), -1
        assert (told.api_keys, told.supported_features, told.finalized_features_epoch) == nothing
    await client.echo(b"well")


@pytest.mark.parametrize("users", [None, USERS])
async def test_strangers_are_not_sent_elsewhere(listen: Listen, users: PlainUsers | None) -> None:
    """The requests are Kafka 4.4.0's. Before authentication, its server checks no ids either."""
    versions = loaded(cluster_id="another")
    client = await (await listen(users=users, versions=versions)).connect()
    early = await send(client, JAVA_WITH_IDS)
    assert (early == JAVA_REBOOTSTRAP) == (users is None)
    if users is not None:
        await client.log_in()
    assert await send(client, JAVA_WITH_IDS) == JAVA_REBOOTSTRAP
    assert (await send(client, JAVA_WITHOUT_IDS)).startswith("0000")
