"""Requests of real clients and Apache Kafka 4.3.1's answers, byte by byte. The clients:
librdkafka 2.16.1 (confluent-kafka), kafka-python 3.0.12, and kafka-acls 4.3.1.
"""

from datetime import timedelta
from types import SimpleNamespace

import pytest

from authorizerd.acl.model import (
    Acl,
    AclFilter,
    Operation,
    PatternType,
    PermissionType,
    ResourceType,
)
from authorizerd.acl.steps import finish
from authorizerd.protocol.kafka.acl_client import (
    decode_create_acls_response,
    decode_delete_acls_response,
    decode_describe_acls_response,
)
from authorizerd.protocol.kafka.acls import FilterResult, MatchingAcl
from authorizerd.protocol.kafka.api import ApiKey, names_software
from authorizerd.protocol.kafka.error_codes import ApiError, ErrorCode
from authorizerd.protocol.kafka.messages import decode_request, encode_response
from authorizerd.protocol.kafka.server_connection import (
    KafkaRequest,
    KafkaServerConnection,
    frame_response,
)
from tests.support.acl_messages import (
    decode_create_acls,
    decode_delete_acls,
    decode_describe_acls,
    encode_create_acls,
    encode_delete_acls,
    encode_describe_acls_error,
    encode_listing,
    joined,
)

LITERAL, PREFIXED = PatternType.LITERAL, PatternType.PREFIXED
ALLOW, DENY = PermissionType.ALLOW, PermissionType.DENY
TOPIC, GROUP, CLUSTER = ResourceType.TOPIC, ResourceType.GROUP, ResourceType.CLUSTER

ALICE_READS_ORDERS = Acl(TOPIC, "orders", LITERAL, "User:alice", "*", Operation.READ, ALLOW)
ALICE_READS_APPS = Acl(GROUP, "app-", PREFIXED, "User:alice", "*", Operation.READ, ALLOW)
BOB_IS_DENIED = Acl(TOPIC, "zahlung-ü", LITERAL, "User:bob", "10.0.0.1", Operation.WRITE, DENY)
BOB_ALTERS = Acl(CLUSTER, "kafka-cluster", LITERAL, "User:bob", "*", Operation.ALTER, ALLOW)
CAROL_READS = Acl(TOPIC, "a-", PREFIXED, "User:carol", "*", Operation.READ, ALLOW)
LIBRDKAFKA_CREATE = (
    "00000044001e000200000005000772646b61666b61000302076f7264657273030b557365723a616c696365022a030300"
    "03056170702d040b557365723a616c696365022a03030000"
)
PYTHON_CREATE = (
    "00000060001e00030000000400136b61666b612d707974686f6e2d332e302e31320003020b7a61686c756e672dc3bc03"
    "09557365723a626f620931302e302e302e31040200040e6b61666b612d636c75737465720309557365723a626f62022a"
    "07030000"
)
JAVA_CREATE = (
    "0000002f001e000300000004000d61646d696e636c69656e742d3100020203612d040b557365723a6361726f6c022a03"
    "030000"
)
LIBRDKAFKA_DESCRIBE = "0000001a001d000200000006000772646b61666b61000100010000010100"
PYTHON_DESCRIBE = (
    "00000026001d00030000000500136b61666b612d707974686f6e2d332e302e3132000100010000010100"
)
JAVA_DESCRIBE = "00000022001d000300000003000d61646d696e636c69656e742d31000203612d040000010100"
LIBRDKAFKA_DELETE = "0000001c001f000200000008000772646b61666b610002010001000001010000"
PYTHON_DELETE = (
    "00000028001f00030000000700136b61666b612d707974686f6e2d332e302e31320002010001000001010000"
)
JAVA_DELETE = "00000024001f000300000003000d61646d696e636c69656e742d3100020203612d02000001010000"


def the_request(captured: str) -> KafkaRequest:
    connection = KafkaServerConnection(1000)
    connection.receive_data(bytes.fromhex(captured))
    request = connection.next_request()
    assert request is not None
    assert request.is_served
    return request


def body_of(answer: str, header_bytes: int) -> bytes:
    return bytes.fromhex(answer)[4 + header_bytes :]


@pytest.mark.parametrize(
    ("captured", "client_id", "acls", "answer"),
    [
        (LIBRDKAFKA_CREATE, "rdkafka", [ALICE_READS_ORDERS, ALICE_READS_APPS],
         "0000001300000005000000000003000001000000010000"),
        (PYTHON_CREATE, "kafka-python-3.0.12", [BOB_IS_DENIED, BOB_ALTERS],
         "0000001300000004000000000003000001000000010000"),
        (JAVA_CREATE, "adminclient-1", [CAROL_READS], "0000000f000000040000000000020000010000"),
    ],
)  # fmt: skip
def test_creations_are_answered_as_by_a_broker(
    captured: str, client_id: str, acls: list[Acl], answer: str
) -> None:
    request = the_request(captured)
    assert (request.api_key, request.client_id) == (ApiKey.CREATE_ACLS, client_id)
    assert finish(decode_create_acls(request.api_version, request.body)) == (acls, None)
    body = finish(encode_create_acls(request.api_version, [None] * len(acls)))
    assert b"".join(frame_response(request, body)).hex() == answer
    assert decode_create_acls_response(request.api_version, body_of(answer, 5)) == [None] * len(
        acls
    )


@pytest.mark.parametrize(
    ("captured", "filter", "acls", "answer"),
    [
        (
            LIBRDKAFKA_DESCRIBE,
            AclFilter(),
            [ALICE_READS_APPS, ALICE_READS_ORDERS],
            "000000420000000600000000000000010303056170702d04020b557365723a616c696365022a0303000002076f72"
            "646572730302"
            "0b557365723a616c696365022a0303000000",
        ),
        (
            PYTHON_DESCRIBE,
            AclFilter(),
            [BOB_IS_DENIED, BOB_ALTERS],
            "0000005200000005000000000000000103020b7a61686c756e672dc3bc030209557365723a626f620931302e302e"
            "302e3104020000040e6b61666b612d636c7573746572030209557365723a626f62022a0703000000",
        ),
        (JAVA_DESCRIBE, AclFilter(resource_type=TOPIC, resource_name="a-", pattern_type=PREFIXED),
         [], "0000000e0000000300000000000000010100"),
    ],
)  # fmt: skip
def test_describes_are_answered_as_by_a_broker(
    captured: str, filter: AclFilter, acls: list[Acl], answer: str
) -> None:
    """With the same groups, since a broker's order is arbitrary."""
    request = the_request(captured)
    assert request.api_key is ApiKey.DESCRIBE_ACLS
    assert decode_describe_acls(request.api_version, request.body) == (filter, None)
    assert decode_describe_acls_response(request.api_version, body_of(answer, 5)) == acls
    ours = b"".join(frame_response(request, finish(encode_listing(request.api_version, acls))))
    read = decode_describe_acls_response(request.api_version, ours[9:])
    assert isinstance(read, list)
    assert sorted(map(str, read)) == sorted(map(str, acls))
    assert sorted(ours) == sorted(bytes.fromhex(answer))


@pytest.mark.parametrize(
    ("captured", "filter", "acls", "answer"),
    [
        (
            LIBRDKAFKA_DELETE,
            AclFilter(),
            [ALICE_READS_APPS, ALICE_READS_ORDERS],
            "00000046000000080000000000020000000300000003056170702d040b557365723a616c696365022a0303000000"
            "0002076f7264657273030b557365723a616c696365022a0303000000",
        ),
        (
            PYTHON_DELETE,
            AclFilter(),
            [BOB_IS_DENIED, BOB_ALTERS],
            "000000560000000700000000000200000003000000020b7a61686c756e672dc3bc0309557365723a626f62093130"
            "2e302e302e31040200000000040e6b61666b612d636c75737465720309557365723a626f62022a0703000000",
        ),
        (
            JAVA_DELETE,
            AclFilter(resource_type=TOPIC, resource_name="a-", pattern_type=PatternType.MATCH),
            [CAROL_READS],
            "0000002800000003000000000002000000020000000203612d040b557365723a6361726f6c022a0303000000",
        ),
    ],
)
def test_deletes_are_answered_as_by_a_broker(
    captured: str, filter: AclFilter, acls: list[Acl], answer: str
) -> None:
    request = the_request(captured)
    assert request.api_key is ApiKey.DELETE_ACLS
    assert finish(decode_delete_acls(request.api_version, request.body)) == ([filter], None)
    results = [FilterResult(matches=[MatchingAcl(acl=acl) for acl in acls])]
    body = finish(encode_delete_acls(request.api_version, results))
    assert b"".join(frame_response(request, body)).hex() == answer
    assert decode_delete_acls_response(request.api_version, body_of(answer, 5)) == results


def test_version_1_is_answered_as_by_a_broker() -> None:
    """The requests have valid and invalid items."""
    texts = (
        "Could not parse principal from `alice` (no colon is present separating the principal type "
        "from the principal name)",
        "The only valid name for the CLUSTER resource is kafka-cluster",
    )
    results = [ApiError(42, texts[0]), ApiError(42, texts[1]), None]
    created = joined(encode_create_acls(1, results))
    assert (
        created.hex()
        == (
            "0000000000000003"
            "002a0072" + texts[0].encode().hex() + "002a003d" + texts[1].encode().hex()
        )
        + "00000000"
    )
    acl = Acl(TOPIC, "t", LITERAL, "User:a", "*", Operation.READ, ALLOW)
    assert joined(encode_listing(1, [acl])).hex() == (
        "0000000000000000000000010200017403000000010006557365723a6100012a0303"
    )
    refused = FilterResult(error=ApiError(42, "Unknown patternFilter."))
    deleted = b"".join(
        finish(encode_delete_acls(1, [refused, FilterResult(matches=[MatchingAcl(acl=acl)])]))
    )
    assert deleted.hex() == (
        "0000000000000002002a0016556e6b6e6f776e207061747465726e46696c7465722e000000000000ffff00000001"
        "0000ffff02000174030006557365723a6100012a0303"
    )
    forbidden = encode_describe_acls_error(1, ApiError(31, "no"))
    assert forbidden.hex() == "00000000001f00026e6f00000000"


@pytest.mark.parametrize(
    ("captured", "version", "expected"),
    [
        ("0000000a001200007ffffff80000", 0, {}),
        (
            "000000400012000300000001000772646b61666b610017636f6e666c75656e742d6b61666b612d707974686f6e"
            "16322e31362e312d72646b61666b612d322e31362e3000",
            3,
            {
                "client_software_name": "confluent-kafka-python",
                "client_software_version": "2.16.1-rdkafka-2.16.0",
            },
        ),
        (
            "000000310012000400000000000d61646d696e636c69656e742d3100126170616368652d6b61666b612d6a6176"
            "6106342e332e3100",
            4,
            {"client_software_name": "apache-kafka-java", "client_software_version": "4.3.1"},
        ),
        ("000000180011000100000002000772646b61666b610005504c41494e", 1, {"mechanism": "PLAIN"}),
        ("000000280024000100000003000772646b61666b61000000130061646d696e0061646d696e2d736563726574",
         1, {"auth_bytes": b"\0admin\0admin-secret"}),
        ("00000020002400027ffffffa000000140061646d696e0061646d696e2d73656372657400", 2,
         {"auth_bytes": b"\0admin\0admin-secret"}),
        ("000000160003000d00000004000772646b61666b610001000000", 13,
         {
             "topics": [],
             "allow_auto_topic_creation": False,
             "include_topic_authorized_operations": False,
         }),
        ("000000170003000a00000007000772646b61666b61000100010000", 10,
         {
             "topics": [],
             "allow_auto_topic_creation": False,
             "include_cluster_authorized_operations": True,
             "include_topic_authorized_operations": False,
         }),
        ("0000001c0003000d00000001000d61646d696e636c69656e742d310001010000", 13,
         {
             "topics": [],
             "allow_auto_topic_creation": True,
             "include_topic_authorized_operations": False,
         }),
        ("00000022003c00020000000600136b61666b612d707974686f6e2d332e302e31320001010100", 2,
         {
             "include_cluster_authorized_operations": True,
             "endpoint_type": 1,
             "include_fenced_brokers": True,
         }),
    ],
)  # fmt: skip
def test_first_requests_are_read(captured: str, version: int, expected: dict[str, object]) -> None:
    request = the_request(captured)
    assert request.api_version == version
    read = finish(decode_request(request.api_key, version, request.body))
    assert {name: getattr(read, name) for name in expected} == expected
    if "client_software_name" in expected:
        assert names_software(*map(str, expected.values()))


CLUSTER_ID = "AAAAAAAAQACAAAAAAAAAAQ"
# Bodies of Metadata responses: one broker, no topics, and the operations that admin may do.
BROKER_METADATA = [
    "000000010000000100093132372e302e302e31000071a600000000",
    "000000010000000100093132372e302e302e31000071a6ffff0000000100000000",
    "000000010000000100093132372e302e302e31000071a6ffff0016414141414141414151414341414141414141414141"
    "510000000100000000",
    *(
        "00000000000000010000000100093132372e302e302e31000071a6ffff0016414141414141414151414341414141414"
        "141414141510000000100000000"
        for _ in range(3, 8)
    ),
    "00000000000000010000000100093132372e302e302e31000071a6ffff00164141414141414141514143414141414141"
    "41414141510000000100000000" + "00001fa0",
    *(
        "0000000002000000010a3132372e302e302e31000071a6000017414141414141414151414341414141414141414141"
        "51000000010100001fa000"
        for _ in (9, 10)
    ),
    *(
        "0000000002000000010a3132372e302e302e31000071a6000017414141414141414151414341414141414141414141"
        "51000000010100"
        for _ in (11, 12)
    ),
    "0000000002000000010a3132372e302e302e31000071a6000017414141414141414151414341414141414141414141"
    "510000000101000000",
]


def written(api_key: ApiKey, version: int, **response: object) -> str:
    """Return the body of a response that has the fields of all versions."""
    fields_of_all = SimpleNamespace(throttle_time=timedelta(0), **response)
    return joined(encode_response(api_key, version, fields_of_all)).hex()


@pytest.mark.parametrize("version", range(14))
def test_metadata_is_written_as_by_a_broker(version: int) -> None:
    broker = SimpleNamespace(node_id=1, host="127.0.0.1", port=29094, rack=None)
    body = written(
        ApiKey.METADATA,
        version,
        brokers=[broker],
        cluster_id=CLUSTER_ID,
        controller_id=1,
        topics=[],
        cluster_authorized_operations=0x1FA0,
        error_code=ErrorCode.NONE,
    )
    assert body == BROKER_METADATA[version]


def test_cluster_is_described_as_by_a_broker() -> None:
    broker = SimpleNamespace(broker_id=1, host="127.0.0.1", port=29094, rack=None, is_fenced=False)
    body = written(
        ApiKey.DESCRIBE_CLUSTER,
        2,
        error_code=0,
        error_message=None,
        endpoint_type=1,
        cluster_id=CLUSTER_ID,
        controller_id=1,
        brokers=[broker],
        cluster_authorized_operations=0x1FA0,
    )
    assert (
        body
        == body_of(
            "000000430000000600000000000000000117414141414141414151414341414141414141414141510000000102"
            "000000010a3132372e302e302e31000071a600000000001fa000",
            5,
        ).hex()
    )


@pytest.mark.parametrize(
    ("version", "supported", "size_and_items"),
    [
        (3, [("metadata.version", 7, 33)], "1702116d657461646174612e76657273696f6e0007002100"),
        (
            5,
            [("metadata.version", 7, 33), ("share.version", 0, 2)],
            "2a03116d657461646174612e76657273696f6e00070021000e73686172652e76657273696f6e0000000200",
        ),
    ],
)
def test_features_are_written_as_by_kafka_4_4(
    version: int, supported: list[tuple[str, int, int]], size_and_items: str
) -> None:
    keys = [SimpleNamespace(api_key=18, min_version=0, max_version=5)]
    body = written(
        ApiKey.API_VERSIONS,
        version,
        error_code=0,
        api_keys=keys,
        supported_features=tuple(
            SimpleNamespace(name=name, min_version=lowest, max_version=highest)
            for name, lowest, highest in supported
        ),
        finalized_features_epoch=9,
        finalized_features=(
            SimpleNamespace(name="metadata.version", max_version_level=33, min_version_level=33),
        ),
    )
    assert body == (
        "000002001200000005000000000003"
        f"00{size_and_items}"
        "01080000000000000009"
        "021702116d657461646174612e76657273696f6e0021002100"
    )


def test_other_answers_are_written_as_by_a_broker() -> None:
    bad_software = written(ApiKey.API_VERSIONS, 3, error_code=42, api_keys=[])
    assert bad_software == "002a010000000000"
    mechanisms = written(ApiKey.SASL_HANDSHAKE, 1, error_code=33, mechanisms=["PLAIN"])
    assert mechanisms == "0021000000010005504c41494e"
    logged_in = {
        "error_code": 0,
        "error_message": "",
        "auth_bytes": b"",
        "session_lifetime": timedelta(0),
    }
    assert written(ApiKey.SASL_AUTHENTICATE, 1, **logged_in) == "00000000000000000000000000000000"
    assert written(ApiKey.SASL_AUTHENTICATE, 2, **logged_in) == "00000101000000000000000000"
    coordinator = SimpleNamespace(
        key="g", node_id=-1, host="", port=-1, error_code=15, error_message=""
    )
    found = written(ApiKey.FIND_COORDINATOR, 4, coordinators=[coordinator])
    assert found == "00000000020267ffffffff01ffffffff000f010000"
