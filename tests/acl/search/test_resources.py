"""What can: patterns, with denials subtracted, compared with every decision."""

from collections.abc import Iterable

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from authorizerd.acl import patterns
from authorizerd.acl.decision import AuthorizerSettings
from authorizerd.acl.errors import InvalidQuestionError
from authorizerd.acl.model import Acl, Operation, PatternType, ResourceType
from authorizerd.acl.releases import ANY_RELEASE, RULES_4_3, RULES_4_4, ReleaseRules
from authorizerd.acl.search.hosts import EVERYWHERE, HostAccess
from authorizerd.acl.search.pattern_rules import PatternRule, get_position
from authorizerd.acl.search.regions import RegionWalk
from authorizerd.acl.search.resources import PatternAccess, Resources, find_resources
from authorizerd.acl.snapshot import AclSnapshot, with_rules
from tests.acl.search.worlds import ASKING, FROM_HOSTS, OPERATIONS, TYPES, World, worlds
from tests.support.acls import acl, snapshot_of

TOPIC = ResourceType.TOPIC
NOBODY = AuthorizerSettings()
STAR_DENIED = frozenset(
    [
        acl("User:a", topic="*"),
        acl("User:a", topic="*", pattern="PREFIXED", host="10.0.0.1", deny=True),
    ]
)


def is_listed(found: Resources, snapshot: AclSnapshot, name: str, host: str | None) -> bool:
    """Read a result as its documentation says."""
    return (
        found.everything
        or (found.unlisted and not patterns.look_up(snapshot.types[TOPIC].resources, name))
        or any(
            patterns.matches(each.pattern_type, each.name, name)
            and not any(patterns.matches(*pattern, name) for pattern in each.exceptions)
            and each.hosts.allows(host)
            for each in found.patterns
        )
    )


@given(worlds(), st.sampled_from(ASKING), st.sampled_from(OPERATIONS))
@example(World(STAR_DENIED, NOBODY), "User:a", Operation.READ)
def test_results_agree_with_every_decision(
    world: World, principal: str, operation: Operation
) -> None:
    """Only the name ``*`` may be left out, if single hosts are denied."""
    snapshot = world.snapshot
    found = find_resources(snapshot, world.settings, principal, operation, TOPIC)
    is_star_exact = not any(each.resource_name == "*" and each.host != "*" for each in world.held)
    for name in world.probes:
        for host in FROM_HOSTS:
            listed = is_listed(found, snapshot, name, host)
            allowed = world.allows(principal, host, operation, TOPIC, name)
            if name == "*" and not is_star_exact:
                assert allowed or not listed
            else:
                assert listed == allowed, (name, host, found)


@given(worlds(), st.sampled_from(ASKING), st.sampled_from(OPERATIONS), st.sampled_from(TYPES))
def test_no_result_is_superfluous(
    world: World, principal: str, operation: Operation, resource_type: ResourceType
) -> None:
    """Patterns are distinct and sorted; each allows some host, and its exceptions are inside it."""
    found = find_resources(world.snapshot, world.settings, principal, operation, resource_type)
    keys = [get_position((each.pattern_type, each.name)) for each in found.patterns]
    assert keys == sorted(set(keys))
    for each in found.patterns:
        assert not each.hosts.is_nowhere
        assert len(set(each.exceptions)) == len(each.exceptions)
        for _, name in each.exceptions:
            assert patterns.matches(each.pattern_type, each.name, name)


@given(worlds(), st.sampled_from(ASKING), st.sampled_from(OPERATIONS), st.integers(1, 3))
@example(
    # The name `*` is an exception of the prefix `*`, also if the page ends before later patterns.
    World(
        frozenset(
            {
                acl("User:a", "ALL", topic="*", host="10.0.0.1"),
                acl("User:a", "ALL", topic="*", deny=True, host="10.0.0.1"),
                acl("User:a", "ALL", topic="*", pattern="PREFIXED"),
                acl("User:a", "ALL", topic="a"),
                acl("User:a", "ALL", topic="a", pattern="PREFIXED"),
            }
        ),
        AuthorizerSettings(),
    ),
    "User:a",
    Operation.READ,
    1,
)
def test_pages_join_into_the_whole_result(
    world: World, principal: str, operation: Operation, limit: int
) -> None:
    asked = (world.snapshot, world.settings, principal, operation, TOPIC)
    joined: list[PatternAccess] = []
    after = None
    while True:
        page = find_resources(*asked, after=after, limit=limit)
        assert len(page.patterns) <= limit
        joined += page.patterns
        if page.next_after is None:
            break
        after = page.next_after
        last = page.patterns[-1]
        assert after == (last.pattern_type, last.name)
    assert tuple(joined) == find_resources(*asked).patterns


@given(worlds(), st.sampled_from(ASKING), st.sampled_from(OPERATIONS))
def test_single_names_can_be_left_out(world: World, principal: str, operation: Operation) -> None:
    """They are still exceptions of the patterns around them."""
    asked = (world.snapshot, world.settings, principal, operation, TOPIC)
    whole = find_resources(*asked).patterns
    assert find_resources(*asked, literals=False).patterns == tuple(
        each for each in whole if each.pattern_type == PatternType.PREFIXED or each.name == "*"
    )


def what_can(
    *acls: Acl, operation: int = Operation.READ, rules: ReleaseRules = ANY_RELEASE
) -> dict[str, str]:
    """Return what alice may READ, with prefixes as ``name…`` and exceptions after a minus sign."""
    found = find_resources(with_rules(snapshot_of(*acls), rules), NOBODY, ALICE, operation, TOPIC)
    return {
        " -".join(map(show, [(each.pattern_type, each.name), *each.exceptions])): (
            " ".join(["all" if each.hosts.others else "only", *each.hosts.describe_places()])
        )
        for each in found.patterns
    }


def show(pattern: tuple[int, str]) -> str:
    return pattern[1] + ("…" if pattern[0] == PatternType.PREFIXED else "")


def alice(topic: str, pattern: str = "LITERAL", *, host: str = "*", deny: bool = False) -> Acl:
    return acl(ALICE, topic=topic, pattern=pattern, host=host, deny=deny)


ALICE, PREFIXED = "User:alice", "PREFIXED"


@pytest.mark.parametrize(
    ("acls", "expected"),
    [
        pytest.param([], {}, id="nothing"),
        pytest.param([alice("b"), alice("a")], {"a": "all", "b": "all"}, id="literals, sorted"),
        pytest.param([alice("a-", PREFIXED), alice("a-b"), alice("a-b", PREFIXED)],
                     {"a-…": "all"}, id="patterns inside one that allows the same are left out"),
        pytest.param(
            [alice("a-", PREFIXED), alice("a-secret-", PREFIXED, deny=True), alice("a-secret-x")],
            {"a-… -a-secret-…": "all"},
            id="a denied prefix, and an ALLOW inside it that does not count",
        ),
        pytest.param([alice("*"), alice("b", deny=True), alice("a-", PREFIXED, deny=True)],
                     {"* -a-… -b": "all"}, id="the wildcard with exceptions"),
        pytest.param([alice("*"), alice("*a")], {"*": "all", "*a": "all"}, id="the wildcard skips"),
        pytest.param([alice("a-", PREFIXED), alice("a-b", host="10.0.0.1", deny=True)],
                     {"a-… -a-b": "all", "a-b": "all 10.0.0.1"},
                     id="a host denied inside a prefix"),
        pytest.param([alice("a-", PREFIXED, host="10.0.0.1"), alice("a-b")],
                     {"a-…": "only 10.0.0.1", "a-b": "all"},
                     id="more allowed inside a prefix is not its exception"),
        pytest.param([alice("a-", PREFIXED, host="10.0.0.1"), alice("a-b", host="10.0.0.2")],
                     {"a-…": "only 10.0.0.1", "a-b": "only 10.0.0.1 10.0.0.2"},
                     id="the hosts of a literal include those of its prefix"),
        pytest.param(
            [
                alice("a-", PREFIXED, host="10.0.0.1"),
                alice("a-b-", PREFIXED),
                alice("a-b-c", host="10.0.0.1", deny=True),
            ],
            {"a-… -a-b-…": "only 10.0.0.1", "a-b-… -a-b-c": "all", "a-b-c": "all 10.0.0.1"},
            id="a wider pattern with a narrower one inside it",
        ),
        pytest.param([acl("User:*", topic="a-", pattern=PREFIXED), alice("a-b", deny=True)],
                     {"a-… -a-b": "all"}, id="allowed to everyone, denied to alice"),
        pytest.param([alice("a"), acl("User:*", topic="*", deny=True)], {},
                     id="everyone is denied everything"),
        pytest.param([alice("*"), alice("*", PREFIXED, deny=True)], {"* -*…": "all"},
                     id="the name * is denied by the prefix *"),
        pytest.param([alice("*", deny=True), alice("*", PREFIXED)], {"*… -*": "all"},
                     id="the name * is denied by the wildcard, which skips longer names"),
    ],
)  # fmt: skip
def test_examples(acls: list[Acl], expected: dict[str, str]) -> None:
    assert what_can(*acls) == expected


def first_page(*acls: Acl) -> Resources:
    """Return the first page, with two of the patterns."""
    return find_resources(snapshot_of(*acls), NOBODY, "User:a", Operation.READ, TOPIC, limit=2)


MANY_ALLOWED = (
    acl("User:*", "READ", topic="*", host="10.0.0.1"),
    *(acl("User:a", "READ", topic=f"t{number}") for number in range(50)),
)


def test_page_has_exceptions_that_are_in_no_page() -> None:
    denied = acl("User:a", "READ", topic="z", deny=True)
    wildcard, first = first_page(*MANY_ALLOWED, denied).patterns
    assert (wildcard.name, wildcard.exceptions) == ("*", ((PatternType.LITERAL, "z"),))
    assert first.name == "t0"


def test_page_ends_early_if_nothing_denies(monkeypatch: pytest.MonkeyPatch) -> None:
    """The other rules are neither examined nor sorted."""
    examined = list[object]()
    gather = RegionWalk._gather

    def count(walk: RegionWalk, rules: Iterable[PatternRule]) -> tuple[int, dict[str, int]]:
        examined.append(rules)
        return gather(walk, rules)

    monkeypatch.setattr(RegionWalk, "_gather", count)
    found = first_page(*MANY_ALLOWED)
    assert [each.name for each in found.patterns] == ["*", "t0"]
    assert found.next_after == (PatternType.LITERAL, "t0")
    assert len(examined) == 3


def test_implied_operations_count() -> None:
    assert what_can(alice("a"), operation=Operation.DESCRIBE) == {"a": "all"}
    assert what_can(alice("a"), operation=Operation.WRITE) == {}


def test_a_super_user_may_use_everything() -> None:
    settings = AuthorizerSettings(frozenset({ALICE}))
    found = find_resources(snapshot_of(), settings, ALICE, Operation.READ, TOPIC)
    assert found == Resources((), everything=True)


def test_unlisted_names_are_one_answer() -> None:
    """Names that no ACL's pattern matches are not enumerated."""
    settings = AuthorizerSettings(allow_everyone_if_no_acl_found=True)
    found = find_resources(snapshot_of(), settings, ALICE, Operation.READ, TOPIC)
    assert found == Resources((), unlisted=True)


def test_a_result_has_all_its_fields() -> None:
    found = find_resources(snapshot_of(alice("a")), NOBODY, ALICE, Operation.READ, TOPIC)
    (pattern,) = found.patterns
    assert pattern == PatternAccess(TOPIC, PatternType.LITERAL, "a", Operation.READ, EVERYWHERE, ())


def test_a_question_about_everyone_is_rejected() -> None:
    with pytest.raises(InvalidQuestionError, match=r"User:\*"):
        find_resources(snapshot_of(), NOBODY, "User:*", Operation.READ, TOPIC)


def test_hosts_of_patterns_are_shared() -> None:
    """A thousand hosts of a prefix are listed once for all literals inside that deny none."""
    named = tuple(f"10.0.{number // 100}.{100 + number % 100}" for number in range(300))
    hosts = [alice("a", PREFIXED, host=host, deny=True) for host in named]
    literals = [alice(f"a{number}") for number in range(50)]
    found = find_resources(snapshot_of(*hosts, *literals), NOBODY, ALICE, Operation.READ, TOPIC)
    assert len(found.patterns) == 50
    assert len({id(each.hosts) for each in found.patterns}) == 1
    assert found.patterns[0].hosts == HostAccess(True, named)


@pytest.mark.parametrize(
    ("rules", "expected"),
    [
        (RULES_4_3, {"a-…": "all"}),
        (RULES_4_4, {"a-… -a-b-…": "all", "a-b-…": "all 10.9.0.0/16"}),
    ],
)
def test_hosts_that_never_match_say_nothing(rules: ReleaseRules, expected: dict[str, str]) -> None:
    acls = (
        alice("a-", PREFIXED),
        alice("a-b", host="evil.example.com", deny=True),
        alice("a-b-", PREFIXED, host="10.9.0.0/16", deny=True),
        alice("c", host="::1"),
    )
    assert what_can(*acls, rules=rules) == expected
