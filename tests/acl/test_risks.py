"""Which ACLs are named as risky, of which kind, and how urgent they are."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from authorizerd.acl.decision import AuthorizerSettings
from authorizerd.acl.hosts import never_matches
from authorizerd.acl.model import Acl, Operation, PermissionType, ResourceType
from authorizerd.acl.releases import ANY_RELEASE, RULES_4_3, RULES_4_4, ReleaseRules
from authorizerd.acl.risks import Level, Risk, RiskKind, find_risks
from authorizerd.acl.snapshot import with_rules
from tests.support.acls import acl, snapshot_of
from tests.support.strategies import acls

NOBODY = AuthorizerSettings()
HIGH, MEDIUM = Level.HIGH, Level.MEDIUM


def risks_of(
    judged: Acl,
    *others: Acl,
    rules: ReleaseRules = RULES_4_4,
    settings: AuthorizerSettings = NOBODY,
) -> list[Risk]:
    snapshot = with_rules(snapshot_of(*dict.fromkeys((judged, *others))), rules)
    return list(find_risks(judged, snapshot, settings))


@pytest.mark.parametrize(
    "usual",
    [
        acl("User:a", "READ", topic="orders"),
        acl("User:a", "WRITE", topic="orders-", pattern="PREFIXED"),
        acl("User:a", "READ", topic="orders", host="10.0.0.0/24"),
        acl("User:a", "READ", group="g"),
        acl("User:*", "IDEMPOTENT_WRITE", cluster=True),
        acl("User:a", "DESCRIBE", cluster=True),
        acl("User:a", "ALL", delegation_token="t"),
        acl("User:a", "DESCRIBE", topic="__consumer_offsets"),
        acl("User:a", "WRITE", group="__consumer_offsets"),
        acl("User:*", "READ", topic="orders", host="db.example.com"),
        acl("User:a", "ALTER", topic="orders", deny=True),
        acl("User:a", "READ", topic="orders", host="10.0.0.9", deny=True),
        acl("User:*", "READ", topic="orders", host="10.0.0.9", deny=True),
        acl("nobody", "ALL", topic="*"),
        acl("nobody", "READ", topic="orders", host="db.example.com"),
        acl("User:*", "READ", topic="orders", host="2001:db8::1%eth0/32"),
        Acl(ResourceType.TOPIC, "t", 3, "User:a", "*", 99, PermissionType.DENY),
    ],
)
def test_usual_acls_have_no_risk(usual: Acl) -> None:
    assert risks_of(usual) == []


@pytest.mark.parametrize(
    ("risky", "kind", "level", "said"),
    [
        (acl("User:*", "READ", topic="t"), RiskKind.EVERYONE, HIGH,
         "User:* is everyone who can connect"),
        (acl("User:*", "DESCRIBE", topic="t"), RiskKind.EVERYONE, MEDIUM,
         "User:* is everyone who can connect"),
        (acl("User:ANONYMOUS", "WRITE", topic="t"), RiskKind.EVERYONE, HIGH,
         "User:ANONYMOUS is everyone who connects without a login"),
        (acl("User:a", "ALL", cluster=True), RiskKind.CLUSTER, HIGH,
         "ALL on the cluster: the principal may change ACLs, so it can give itself everything"),
        (acl("User:a", "ALTER", cluster=True), RiskKind.CLUSTER, HIGH,
         "ALTER on the cluster: the principal may change ACLs, so it can give itself everything"),
        (acl("User:a", "ALTER_CONFIGS", cluster=True), RiskKind.CLUSTER, HIGH,
         "ALTER_CONFIGS on the cluster: the principal may change the settings of brokers"),
        (acl("User:a", "CLUSTER_ACTION", cluster=True), RiskKind.CLUSTER, HIGH,
         "CLUSTER_ACTION on the cluster: the principal may act as a broker, and so read every"
         " topic without an ACL"),
        (acl("User:a", "CREATE", cluster=True), RiskKind.CLUSTER, MEDIUM,
         "CREATE on the cluster: the principal may create topics of any name"),
        (Acl(ResourceType.CLUSTER, "*", 3, "User:a", "*", Operation.ALTER, 3), RiskKind.CLUSTER,
         HIGH,
         "ALTER on the cluster: the principal may change ACLs, so it can give itself everything"),
        (acl("User:a", "READ", topic="*"), RiskKind.WILDCARD, HIGH,
         "it applies to every topic, also to those that are created later"),
        (acl("User:a", "DESCRIBE", group="*"), RiskKind.WILDCARD, MEDIUM,
         "it applies to every group, also to those that are created later"),
        (acl("User:a", "WRITE", transactional_id="", pattern="PREFIXED"), RiskKind.WILDCARD, HIGH,
         "it applies to every transactional id, also to those that are created later"),
        (acl("User:a", "READ", topic="or", pattern="PREFIXED"), RiskKind.SHORT_PREFIX, MEDIUM,
         "it applies to every topic whose name begins with 'or'"),
        (acl("User:a", "READ", group="-.-", pattern="PREFIXED"), RiskKind.SHORT_PREFIX, MEDIUM,
         "it applies to every group whose name begins with '-.-'"),
        (acl("User:a", "WRITE", topic="__consumer_offsets"), RiskKind.INTERNAL, HIGH,
         "literal `__consumer_offsets` matches internal topics: __consumer_offsets has the"
         " positions of all consumer groups"),
        (acl("User:a", "READ", topic="__t", pattern="PREFIXED"), RiskKind.INTERNAL, MEDIUM,
         "prefix `__t` matches internal topics: __transaction_state has the state of all"
         " transactions"),
        (acl("User:a", "READ", topic="connect-", pattern="PREFIXED"), RiskKind.INTERNAL, HIGH,
         "prefix `connect-` matches internal topics: connect-configs has the settings of"
         " connectors, often with passwords"),
        (acl("User:a", "CREATE_TOKENS", user="User:b"), RiskKind.TOKENS, HIGH,
         "the principal may create delegation tokens of these users, and act as them"),
        (acl("User:a", "ALL", group="g"), RiskKind.ALL, MEDIUM,
         "ALL includes DELETE and ALTER_CONFIGS, and what a later Kafka adds"),
        (acl("User:a", "ALTER_CONFIGS", topic="t"), RiskKind.CHANGES, MEDIUM,
         "ALTER_CONFIGS: the principal may shorten the retention, and so delete the topic's"
         " records"),
        (acl("User:a", "DELETE", topic="t"), RiskKind.CHANGES, MEDIUM,
         "DELETE: the principal may delete the topic and its records"),
        (acl("User:a", "TWO_PHASE_COMMIT", transactional_id="t"), RiskKind.TRANSACTIONS, MEDIUM,
         "a transaction without a time limit can hold back all readers of its topics"),
        (acl("User:a", "READ", topic="t", host="10.0.0.0/8"), RiskKind.RANGE, MEDIUM,
         "host '10.0.0.0/8' is a range of 16,777,216 addresses"),
        (acl("User:a", "READ", topic="t", host="2001:db8::/32"), RiskKind.RANGE, MEDIUM,
         "host '2001:db8::/32' is a range of 2^96 addresses"),
        (acl("User:a", "READ", topic="t", host="db.example.com", deny=True), RiskKind.DENIAL, HIGH,
         "host 'db.example.com' never matches, so this DENY has no effect"),
        (Acl(ResourceType.TOPIC, "t", 3, "User:a", "*", 99, 3), RiskKind.UNKNOWN, MEDIUM,
         "a later Kafka version knows what this ACL allows"),
        (Acl(99, "t", 3, "User:*", "*", 3, 3), RiskKind.UNKNOWN, MEDIUM,
         "a later Kafka version knows what this ACL allows"),
    ],
)  # fmt: skip
def test_risk_has_a_kind_a_level_and_a_sentence(
    risky: Acl, kind: RiskKind, level: Level, said: str
) -> None:
    assert risks_of(risky) == [Risk(kind, level, said)]


def test_acl_has_every_risk_that_applies() -> None:
    worst = acl("User:*", "ALL", topic="*", host="0.0.0.0/0")
    kinds = [each.kind for each in risks_of(worst)]
    assert kinds == [RiskKind.EVERYONE, RiskKind.WILDCARD, RiskKind.ALL, RiskKind.RANGE]


DENY = acl("User:a", "READ", topic="orders", host="10.0.0.9", deny=True)
RANGE_DENY = acl("User:a", "READ", topic="orders", host="10.0.0.0/8", deny=True)


@pytest.mark.parametrize("operation", ["READ", "ALL"])
@pytest.mark.parametrize("allowing", ["User:a", "User:*"])
def test_denial_of_a_host_is_named_if_others_are_allowed(allowing: str, operation: str) -> None:
    denial = acl("User:a", operation, topic="orders", host="10.0.0.9", deny=True)
    wide = acl(allowing, "READ", topic="ord", pattern="PREFIXED")
    said = "other ACLs allow the same from hosts other than '10.0.0.9'"
    assert risks_of(denial, wide) == [Risk(RiskKind.DENIAL, MEDIUM, said)]


@pytest.mark.parametrize(
    "other",
    [
        acl("User:b", "READ", topic="orders"),
        acl("User:a", "READ", topic="payments"),
        acl("User:a", "READ", topic="orders", host="10.0.0.8"),
    ],
)
def test_denial_of_a_host_is_not_named_if_nothing_else_is_allowed(other: Acl) -> None:
    assert risks_of(DENY, other) == []


def test_denial_that_another_covers_is_not_named() -> None:
    allowed = acl("User:a", "READ", topic="orders")
    assert risks_of(DENY, allowed, acl("User:*", "READ", topic="orders", deny=True)) == []


def test_denial_of_a_super_user_has_no_effect() -> None:
    settings = AuthorizerSettings(super_users=frozenset(["User:a"]))
    said = "User:a is a super user, so this DENY has no effect"
    assert risks_of(DENY, settings=settings) == [Risk(RiskKind.DENIAL, HIGH, said)]


def test_older_releases_apply_no_range() -> None:
    allowed = acl("User:a", "READ", topic="orders", host="10.0.0.0/8")
    assert risks_of(allowed, rules=RULES_4_3) == []
    (risk,) = risks_of(allowed, rules=ANY_RELEASE)
    assert risk.kind is RiskKind.RANGE
    (risk,) = risks_of(RANGE_DENY, rules=RULES_4_3)
    assert risk.sentence == "host '10.0.0.0/8' never matches, so this DENY has no effect"
    (risk,) = risks_of(RANGE_DENY, rules=ANY_RELEASE)
    assert risk.sentence == "Kafka 4.3 knows no ranges: this DENY has no effect there"
    assert risks_of(RANGE_DENY, rules=RULES_4_4) == []


@given(acls(), st.lists(acls(), max_size=4), st.sampled_from([RULES_4_3, RULES_4_4, ANY_RELEASE]))
def test_risks_are_of_different_kinds_and_fit_the_permission(
    judged: Acl, others: list[Acl], rules: ReleaseRules
) -> None:
    risks = risks_of(judged, *others, rules=rules)
    kinds = [each.kind for each in risks]
    assert len(kinds) == len(set(kinds))
    is_denial = judged.permission_type != PermissionType.ALLOW
    assert all((each is RiskKind.DENIAL) == is_denial for each in kinds)
    if not is_denial and never_matches(judged.host, rules):
        assert not risks
