"""The flags of ``authorizerd acls``, its output, and its requests to a Kafka server."""

from collections.abc import AsyncIterator, Iterator
from types import SimpleNamespace
from typing import Any

import pytest
import trio
import trio.testing
from hypothesis import given
from hypothesis import strategies as st
from trio.testing import MockClock

from authorizerd.acl.model import Acl, AclFilter, Operation, PatternType, PermissionType
from authorizerd.acl.steps import finish
from authorizerd.cli.acls.advice import ADVICE
from authorizerd.cli.acls.arguments import check_arguments, parse_arguments
from authorizerd.cli.acls.errors import KafkaAclsError, UsageError
from authorizerd.cli.acls.remote import KafkaAclAdmin
from authorizerd.cli.acls.runner import format_by_principal
from authorizerd.kafka_client.client import ClientSettings, KafkaClient
from authorizerd.kafka_client.errors import Cause, HandshakeFailedError
from authorizerd.management.formats.listing import format_acls
from authorizerd.protocol.kafka.error_codes import ErrorCode
from tests.daemon.kafka_cluster import (
    HANG_UP,
    SILENCE,
    KafkaCluster,
    KafkaNode,
    addresses,
    answer,
    described,
)
from tests.support.acl_messages import decode_create_acls, decode_delete_acls, decode_describe_acls
from tests.support.acls import acl
from tests.support.strategies import acls

[ADDRESS] = addresses(1)
ERROR = "org.apache.kafka.common.errors."

ACLS = [acl(f"User:{name}", pattern="PREFIXED", deny=True) for name in ("a", "b")]
FILTERS = [AclFilter(), AclFilter(resource_name="é", pattern_type=PatternType.MATCH)]


@pytest.fixture
async def node(nursery: trio.Nursery) -> KafkaNode:
    return KafkaCluster(nursery).add(ADDRESS)


@pytest.fixture
async def admin(node: KafkaNode) -> AsyncIterator[KafkaAclAdmin]:
    settings = ClientSettings(bootstrap=[ADDRESS])
    async with KafkaClient(settings, lambda _: None, node.cluster.connect) as client:
        yield KafkaAclAdmin(client)


def result(error_code: int = 0, text: str | None = None, **fields: object) -> SimpleNamespace:
    return SimpleNamespace(error_code=error_code, error_message=text, **fields)


def created(*results: SimpleNamespace) -> SimpleNamespace:
    return answer(results=results)


def deleted(*results: SimpleNamespace) -> SimpleNamespace:
    return answer(filter_results=results)


def match(acl: Acl, error_code: int = 0, text: str | None = None) -> SimpleNamespace:
    fields = {name: getattr(acl, name) for name in acl.__struct_fields__}
    return result(error_code, text, **fields)


async def test_filter_is_sent_and_every_field_read(node: KafkaNode, admin: KafkaAclAdmin) -> None:
    resource = {"resource_type": 2, "resource_name": "t", "pattern_type": PatternType.PREFIXED}
    node.answers = [described(SimpleNamespace(**resource, acls=ACLS))]
    assert await admin.describe(FILTERS[1]) == ACLS
    request = node.asked[-1]
    assert decode_describe_acls(request.api_version, request.body) == (FILTERS[1], None)


async def test_acls_are_created_in_one_request(node: KafkaNode, admin: KafkaAclAdmin) -> None:
    node.answers = [created(result(), result())]
    await admin.create(ACLS)
    request = node.asked[-1]
    assert finish(decode_create_acls(request.api_version, request.body)) == (ACLS, None)


async def test_acls_are_deleted_in_one_request(node: KafkaNode, admin: KafkaAclAdmin) -> None:
    node.answers = [deleted(result(matching_acls=[match(ACLS[0])]), result(matching_acls=[]))]
    assert await admin.delete(FILTERS) == (1, True)
    request = node.asked[-1]
    assert finish(decode_delete_acls(request.api_version, request.body)) == (FILTERS, None)


async def test_count_is_uncertain_after_a_lost_answer(
    node: KafkaNode, admin: KafkaAclAdmin, autojump_clock: trio.testing.MockClock
) -> None:
    node.answers = [SILENCE, deleted(result(matching_acls=[]), result(matching_acls=[]))]
    removed = await admin.delete(FILTERS)
    assert str(removed) == "0 ACLs removed, and perhaps more by an earlier attempt"


@pytest.mark.parametrize(("given", "said"), [
    (created(result(), result(42, "Bad."), result(31, "No.")), "InvalidRequestException: Bad."),
    (deleted(result(54, "None.", matching_acls=[])), "SecurityDisabledException: None."),
    (deleted(result(matching_acls=[match(ACLS[0]), match(ACLS[1], 7)])),
     "TimeoutException: The request timed out."),
    (deleted(result(matching_acls=[]), result(44, "", matching_acls=[])),
     "PolicyViolationException: "),
])  # fmt: skip
async def test_first_error_is_raised(
    node: KafkaNode, admin: KafkaAclAdmin, given: SimpleNamespace, said: str
) -> None:
    node.answers = [given]
    changed = admin.create(ACLS) if hasattr(given, "results") else admin.delete(FILTERS)
    with pytest.raises(KafkaAclsError) as error:
        await changed
    assert str(error.value).endswith(f"\nCaused by: {ERROR}{said}\n\n")


@pytest.mark.parametrize(("code", "advice"), [
    (ErrorCode.CLUSTER_AUTHORIZATION_FAILED, "needs DESCRIBE on the cluster, and changing them"),
    (ErrorCode.UNSUPPORTED_VERSION, "a controller does not serve this request: name the address"),
    (ErrorCode.MISMATCHED_ENDPOINT_TYPE, "Name a broker with --bootstrap-server."),
    (ErrorCode.SECURITY_DISABLED, ""),
])  # fmt: skip
async def test_refusal_has_advice_if_the_flags_can_help(
    node: KafkaNode, admin: KafkaAclAdmin, code: ErrorCode, advice: str
) -> None:
    node.answers = [answer(error_code=code, error_message=None, resources=())]
    with pytest.raises(KafkaAclsError) as error:
        await admin.describe(AclFilter())
    assert advice in error.value.advice
    assert bool(advice) == bool(error.value.advice)


@pytest.mark.parametrize(("code", "text", "said"), [
    (31, "No.", "ClusterAuthorizationException: No."),
    (31, None, "ClusterAuthorizationException: Cluster authorization failed."),
    (-1, "Oops.", "UnknownServerException: Oops."),
    (12345, None,
     "UnknownServerException: The server experienced an unexpected error when processing "
     "the request."),
])  # fmt: skip
async def test_errors_are_printed_as_exceptions_of_java(
    node: KafkaNode, admin: KafkaAclAdmin, code: int, text: str | None, said: str
) -> None:
    node.answers = [answer(error_code=code, error_message=text, resources=())]
    with pytest.raises(KafkaAclsError) as error:
        await admin.describe(AclFilter())
    assert str(error.value) == (
        f"Error while executing ACL command: {ERROR}{said}\n"
        f"java.util.concurrent.ExecutionException: {ERROR}{said}\n"
        f"Caused by: {ERROR}{said}\n\n"
    )


async def test_server_that_is_not_ready_is_asked_again(
    node: KafkaNode, admin: KafkaAclAdmin, autojump_clock: MockClock
) -> None:
    """After the time-out, the error is what Java's client makes of code 801."""
    not_ready = result(ErrorCode.AUTHORIZER_NOT_READY, "Loading.")
    node.answers = [created(not_ready, not_ready), created(result(), result())]
    await admin.create(ACLS)
    refused = result(ErrorCode.AUTHORIZER_NOT_READY, "Loading.", matching_acls=[])
    node.answers = [deleted(refused)] * 100
    with pytest.raises(KafkaAclsError, match=r"UnknownServerException: Loading\.\n"):
        await admin.delete(FILTERS)


@pytest.mark.parametrize(("answers", "advice"), [
    ([HANG_UP, answer(error_code=0, mechanisms=("PLAIN",))],
     ["--command-config FILE", "  security.protocol=SASL_PLAINTEXT\n", 'username="NAME"']),
    ([HANG_UP] * 99, ["check that the server runs", "--command-config"]),
])  # fmt: skip
async def test_missing_login_and_dead_server_fail_at_once_with_advice(
    node: KafkaNode, admin: KafkaAclAdmin, autojump_clock: MockClock, answers: object,
    advice: list[str],
) -> None:  # fmt: skip
    node.answers += answers  # type: ignore[arg-type]
    with pytest.raises(KafkaAclsError) as error:
        await admin.describe(AclFilter())
    assert str(error.value).count("host0:9000: the ") == 3
    assert all(part in error.value.advice for part in advice)
    assert trio.current_time() < 2


@pytest.mark.parametrize(
    ("is_late", "message"),
    [(False, "SSL handshake failed"), (True, "Failed to process post-handshake messages")],
)
async def test_failed_handshake_is_printed_as_kafka_acls_does(is_late: bool, message: str) -> None:
    """Only the last line, which gives the reason, differs."""

    class Failing(KafkaClient):
        async def request(self, *_: object, **__: object) -> Any:  # noqa: ANN401 - it never returns
            raise HandshakeFailedError("h:1: the reason", Cause.WRONG_HOST, is_late=is_late)

    client = Failing(ClientSettings(bootstrap=[ADDRESS]), lambda _: None)
    with pytest.raises(KafkaAclsError) as error:
        await KafkaAclAdmin(client).describe(AclFilter())
    failure = f"{ERROR}SslAuthenticationException: {message}"
    assert str(error.value) == (
        f"Error while executing ACL command: {failure}\n"
        f"java.util.concurrent.ExecutionException: {failure}\n"
        f"Caused by: {failure}\n"
        "Caused by: javax.net.ssl.SSLHandshakeException: h:1: the reason\n\n"
    )
    assert error.value.advice == ADVICE[Cause.WRONG_HOST]


def test_each_cause_has_advice() -> None:
    assert set(ADVICE) == set(Cause)
    for text in ADVICE.values():
        assert text.endswith("\n")
        assert max(map(len, text.splitlines())) < 130


WORDS = st.sampled_from(
    [
        *("--add", "--remove", "--list", "--topic", "-topic", "--topic=", "--topic=a", "--group"),
        *("--principal", "--command-config", "--producer", "--consumer", "--idempotent", "--help"),
        *("--bootstrap-server", "--log-dir", "--", "-", "", "x", "-x", "--x", "=", "--force=1"),
    ]
)


@given(st.lists(WORDS | st.text(), max_size=6))
def test_any_words_are_flags_or_a_usage_error(words: list[str]) -> None:
    try:
        found = parse_arguments(words)
        check_arguments(found)
    except UsageError:
        return
    for value in found.values("topic"):
        assert value in words or f"--topic={value}" in words


@pytest.mark.parametrize(("words", "flag", "values"), [
    (["--topic", "a", "--topic", "b"], "topic", ["a", "b"]),
    (["--topic=a=b", "-topic", "c"], "topic", ["a=b", "c"]),
    (["--topic", "--list"], "topic", ["--list"]),
    (["--topic", "--"], "topic", ["--"]),
    (["--topic="], "topic", [""]),
    (["--topic", ""], "topic", [""]),
    (["--topic", "a", "stray", "-", "--topic", "b", "--", "--topic", "c"], "topic", ["a", "b"]),
    (["--principal"], "principal", []),
    (["--principal", "--list"], "principal", []),
    (["--principal", "-x"], "principal", None),
    (["--principal", "-"], "principal", ["-"]),
    (["--principal", "--"], "principal", ["--"]),
    (["--principal="], "principal", [""]),
    (["--principal", "User:a", "User:b"], "principal", ["User:a"]),
    (["--force", "no", "--list=no"], "force", []),
])  # fmt: skip
def test_values_are_parsed_as_jopt_simple_parses_them(
    words: list[str], flag: str, values: list[str] | None
) -> None:
    if values is None:
        with pytest.raises(UsageError):
            parse_arguments(words)
        return
    found = parse_arguments(words)
    assert found.has(flag)
    assert list(found.values(flag)) == values


def test_absent_flag_has_no_values() -> None:
    found = parse_arguments([])
    assert not found.has("topic")
    assert list(found.values("topic")) == []
    assert found.value("topic") is None


def test_repeated_flag_is_rejected_where_one_value_is_expected() -> None:
    with pytest.raises(KafkaAclsError, match="Found multiple arguments for option log-dir"):
        parse_arguments(["--log-dir", "a", "--log-dir", "b"]).value("log-dir")


def test_values_of_a_repeated_flag_are_checked_once() -> None:
    class Value(str):
        __slots__ = ()
        read = 0

        def __iter__(self) -> Iterator[str]:
            Value.read += 1
            return super().__iter__()

    assert len(parse_arguments(["--topic", Value("a")] * 50).values("topic")) == 50
    assert Value.read == 50


def test_value_that_is_not_utf_8_is_rejected() -> None:
    with pytest.raises(UsageError, match="The value of option topic is not valid UTF-8"):
        parse_arguments(["--topic", "a\udcff"])


@pytest.mark.parametrize(("flag", "value"), [
    ("add", []),
    ("remove", []),
    ("bootstrap-server", ["localhost:9092"]),
    ("bootstrap-controller", ["localhost:9093"]),
    ("command-config", ["client.properties"]),
])  # fmt: skip
def test_log_dir_conflicts_with_flags_of_a_server(flag: str, value: list[str]) -> None:
    words = ["--list", "--log-dir", "d", f"--{flag}", *value]
    with pytest.raises(UsageError) as error:
        check_arguments(parse_arguments(words))
    assert str(error.value) == f'Option "[log-dir]" can\'t be used with option "[{flag}]"'


def test_log_dir_combines_with_filters() -> None:
    check_arguments(
        parse_arguments(["--list", "--log-dir", "d", "--topic", "t", "--principal", "User:a"])
    )


def test_principals_are_listed_in_the_given_order_once_each() -> None:
    headings = "ACLs for principal `User:b`\nACLs for principal `User:a`\n"
    assert format_by_principal([], ("User:b", "User:a", "User:b")) == headings


@given(st.lists(acls(unknown_codes=True), max_size=8))
def test_every_acl_is_listed_once_in_a_fixed_order(found: list[Acl]) -> None:
    text = format_acls(found)
    assert format_acls([*reversed(found), *found]) == text
    lines = text.split("\n")
    assert {line for line in lines if line.startswith("\t")} == {
        f"\t(principal={acl.principal}, host={acl.host}, "
        f"operation={Operation.read(acl.operation).name}, "
        f"permissionType={PermissionType.read(acl.permission_type).name})"
        for acl in found
    }
    headings = [line for line in lines if line.startswith("Current ")]
    assert len(headings) == len(set(headings))


def test_unknown_codes_are_listed_as_one() -> None:
    one, two = (Acl(code, "t", code, "User:a", "*", code, code) for code in (90, 91))
    assert format_acls([one, two]) == (
        "Current ACLs for resource `ResourcePattern(resourceType=UNKNOWN, name=t, "
        "patternType=UNKNOWN)`:\n"
        "\t(principal=User:a, host=*, operation=UNKNOWN, permissionType=UNKNOWN)\n\n"
    )


def test_empty_list_prints_nothing() -> None:
    assert format_acls([]) == ""
