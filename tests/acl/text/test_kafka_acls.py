"""The arguments with which kafka-acls names an ACL, and which ACLs it cannot name."""

from hypothesis import example, given
from hypothesis import strategies as st

from authorizerd.acl.model import CLUSTER_NAME, Acl, Operation, ResourceType
from authorizerd.acl.text.kafka_acls import entry_arguments, why_inexpressible
from authorizerd.acl.text.printable import escape_unprintable
from authorizerd.cli.acls.arguments import parse_arguments
from authorizerd.cli.acls.errors import KafkaAclsError, UsageError
from authorizerd.cli.acls.plan import Addition, Removal, make_plan
from tests.ops.replay.acl_sets import topic_read

SERVER = ["--bootstrap-server", "h:9092"]

_texts = st.text(st.sampled_from("a*'\"$` -\n\t:é\\;"), max_size=5)
_acls = st.builds(
    Acl, resource_type=st.integers(0, 8), resource_name=st.just(CLUSTER_NAME) | _texts,
    pattern_type=st.integers(2, 5), principal=st.builds("{}:{}".format, _texts, _texts) | _texts,
    host=st.just("*") | _texts, operation=st.integers(0, 16), permission_type=st.integers(1, 4),
)  # fmt: skip


@given(_acls)
@example(Acl(ResourceType.TRANSACTIONAL_ID, " t ", 4, "User:a", "*", Operation.WRITE, 3))
@example(Acl(ResourceType.CLUSTER, CLUSTER_NAME, 3, "User:a", "h", Operation.ALTER, 2))
@example(topic_read("a"))
@example(topic_read(" a"))
@example(topic_read("a", principal="User:a\t"))
def test_acl_is_rejected_or_round_trips_through_kafka_acls(acl: Acl) -> None:
    if why_inexpressible(acl) is None:
        arguments = entry_arguments(acl)
        added = make_plan(parse_arguments([*SERVER, "--add", *arguments]))
        assert isinstance(added, Addition)
        assert [one for group in added.groups for one in group.acls()] == [acl]
        removed = make_plan(parse_arguments([*SERVER, "--remove", "--force", *arguments]))
        assert isinstance(removed, Removal)
        assert (removed.groups, removed.asks) == (added.groups, False)


@given(_acls)
def test_only_inexpressible_acls_are_rejected(acl: Acl) -> None:
    if why_inexpressible(acl) is None or not acl.resource_name or not acl.host:
        return
    try:
        plan = make_plan(parse_arguments([*SERVER, "--add", *entry_arguments(acl)]))
    except (KafkaAclsError, UsageError, ValueError, KeyError):
        return
    assert isinstance(plan, Addition)
    assert [one for group in plan.groups for one in group.acls()] != [acl]


def test_name_with_nul_is_rejected() -> None:
    reason = why_inexpressible(topic_read("a\0b"))
    assert reason == "a command line cannot contain the character NUL"


def test_unprintable_characters_are_escaped() -> None:
    assert escape_unprintable("a\nb\u202e\ud800é") == "a\\nb\\u202e\\ud800é"


def test_flags_are_those_of_kafka_acls() -> None:
    acl = Acl(ResourceType.USER, "u", 4, "User:a", "10.0.0.1", Operation.DESCRIBE_TOKENS, 2)
    assert " ".join(entry_arguments(acl)) == (
        "--deny-principal User:a --deny-host 10.0.0.1 --operation DescribeTokens "
        "--user-principal u --resource-pattern-type prefixed"
    )
