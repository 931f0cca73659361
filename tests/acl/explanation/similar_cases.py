"""Random cases with similar names, principals and hosts, and a check that a near miss is true."""

import dataclasses

from hypothesis import strategies as st
from msgspec.structs import replace

from authorizerd.acl.decision import AuthorizerSettings
from authorizerd.acl.explanation.model import NearMiss, NearMissKind
from authorizerd.acl.model import CLUSTER_NAME, Acl, Question
from authorizerd.acl.releases import RULES
from authorizerd.acl.snapshot import is_grant
from tests.acl.explanation.cases import ADDRESSES, Case, releases
from tests.support.strategies import acls

PRINCIPALS = (
    *("User:a", "User:A", "User:User:a", "Group:a", 'User:"a"', "User:CN=a, O=b", "User:*"),
    *("User:CN=a", "User:CN=A,O=c", "User:CN=b,O=b", "User:CN=*", "User:O=b"),
)
OTHERS = (
    *("User:a", "User:A", "user:a", "User:User:a", "User:O=b,CN=a", "User: a", "a"),
    *("User:CN=a,O=b,C=d", "User:cn=b", "User:O=c"),
)
NAMES = ("a-b", "a.b", "A-b", "a-b ", "a-", "a-*", "a", "*", "a-bc", "*a", "")
HOSTS = (
    *("*", "10.0.0.1", "10.0.0.7", "10.0.0.0/29", "10.0.0.7/32", "10.0.0.0/0.0.0.7", "0::%eth0/64"),
    *("::/0", "0.0.0.0/0", "::1", "a.example", "0:0:0:0:0:0:0:1"),
)


@st.composite
def almost(draw: st.DrawFn) -> Case:
    """Return a case whose ACLs and question are written in many similar ways."""
    some = acls().map(lambda each: replace(each, resource_type=draw(st.sampled_from([2, 2, 4]))))
    held = draw(
        st.frozensets(
            st.builds(
                replace,
                some,
                resource_name=st.sampled_from((*NAMES, CLUSTER_NAME)),
                principal=st.sampled_from(PRINCIPALS),
                host=st.sampled_from(HOSTS),
                permission_type=st.sampled_from((2, 3, 3, 3)),
            ),
            max_size=6,
        )
    )
    asked = Question(
        draw(st.sampled_from(OTHERS)),
        draw(st.sampled_from([None, *ADDRESSES])),
        draw(st.sampled_from([3, 3, 4, 8])),
        draw(st.sampled_from([2, 2, 2, 4])),
        draw(st.sampled_from((*NAMES, CLUSTER_NAME))),
    )
    admins = draw(st.sampled_from([frozenset(), frozenset({"User:A", "User:*"})]))
    settings = AuthorizerSettings(admins, draw(st.booleans()))
    return Case(held, settings, asked, draw(releases))


def alike() -> st.SearchStrategy[Case]:
    """Return cases that differ in the names or in the principals, and in little else."""
    rules = st.builds(
        Acl,
        resource_type=st.just(2),
        resource_name=st.sampled_from(NAMES),
        pattern_type=st.sampled_from((3, 4)),
        principal=st.sampled_from(("User:a", "User:a", *PRINCIPALS)),
        host=st.just("*"),
        operation=st.just(3),
        permission_type=st.sampled_from((3, 3, 3, 2)),
    )
    asked = st.builds(
        Question,
        principal=st.sampled_from(("User:a", "User:a", "User:a", *OTHERS)),
        host=st.just("10.0.0.1"),
        operation=st.just(3),
        resource_type=st.just(2),
        resource_name=st.sampled_from(NAMES),
    )
    return st.builds(
        Case, st.frozensets(rules, min_size=1, max_size=4), st.just(AuthorizerSettings()), asked
    )


def check(case: Case, miss: NearMiss) -> None:
    asked = case.question
    assert miss.acl is None or miss.acl in case.held
    if miss.instead is not None:
        assert miss.instead != asked
        assert case.is_allowed(case.held, miss.instead)
    if miss.rewritten is not None:
        assert miss.acl is not None
        assert case.is_allowed((case.held - {miss.acl}) | {miss.rewritten}, asked)
    if miss.kind == NearMissKind.RELEASE:
        by_release = [dataclasses.replace(case, rules=RULES[each]) for each in case.rules.releases]
        assert any(each.is_allowed(each.held, asked) for each in by_release)
    elif miss.instead is None and miss.rewritten is None:
        assert miss.acl is not None
        assert not is_grant(miss.acl)
        if miss.kind == NearMissKind.SINGLE_DENIAL:
            assert case.is_allowed(case.held - {miss.acl}, asked)
        else:
            outside = [replace(asked, host=host) for host in ("10.77.77.77", "1:0:0:0:0:0:0:0")]
            outside += [replace(asked, host="0.0.0.0")]
            assert any(case.is_allowed(case.held, each) for each in outside)
