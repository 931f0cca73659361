"""Hypothesis strategies: assertions, and ACLs that collide with them."""

from __future__ import annotations

from hypothesis import strategies as st

from authorizerd.acl.model import Acl, Operation, PatternType, PermissionType, ResourceType
from authorizerd.acl.releases import ANY_RELEASE, RULES
from authorizerd.management.policy.words import Assertion, AtMost, Each, Everyone, Names
from tests.management.policy.assertions import (
    EVERY_HOST,
    EVERY_PRINCIPAL,
    RANGES,
    SILENT_HOSTS,
    UNCERTAIN,
)
from tests.support.strategies import HOSTS, PRINCIPALS

releases = st.sampled_from((*RULES.values(), ANY_RELEASE))
names = st.text("ab*", min_size=1, max_size=2)
acls = st.builds(
    Acl,
    resource_type=st.just(ResourceType.TOPIC),
    resource_name=names,
    pattern_type=st.sampled_from((PatternType.LITERAL, PatternType.PREFIXED, 0)),
    principal=st.sampled_from(PRINCIPALS),
    host=st.sampled_from(HOSTS) | st.sampled_from((*RANGES, UNCERTAIN, *SILENT_HOSTS)),
    operation=st.sampled_from((Operation.ALL, Operation.READ, Operation.WRITE, 127)),
    permission_type=st.sampled_from(
        (PermissionType.ALLOW, PermissionType.ALLOW, PermissionType.DENY, 9)
    ),
)
regions = st.builds(Names, names) | st.builds(
    Names, st.text("ab*", max_size=2), is_prefix=st.just(True)
)
principals = st.lists(st.sampled_from(EVERY_PRINCIPAL), min_size=1, max_size=2, unique=True).map(
    tuple
)
each = st.builds(Each, principals)
at_most = st.builds(AtMost, st.integers(0, 3), principals | st.just(()), st.booleans())
assertions = st.builds(
    Assertion,
    who=each | each | at_most | at_most | st.just(Everyone()),
    is_allowed=st.just(True),
    operations=st.lists(
        st.sampled_from([int(Operation.READ), int(Operation.DESCRIBE)]),
        min_size=1, max_size=2, unique=True,
    ).map(tuple),
    resource_type=st.just(ResourceType.TOPIC),
    names=st.lists(regions, min_size=1, max_size=2, unique=True).map(tuple),
    hosts=st.just(()) | st.lists(
        st.sampled_from(EVERY_HOST), min_size=1, max_size=2, unique=True
    ).map(tuple),
) | st.builds(
    Assertion,
    who=each,
    is_allowed=st.just(False),
    operations=st.sampled_from([(int(Operation.READ),), (int(Operation.DESCRIBE),)]),
    resource_type=st.just(ResourceType.TOPIC),
    names=regions.map(lambda region: (region,)),
    hosts=st.just(()) | st.sampled_from(EVERY_HOST).map(lambda host: (host,)),
)  # fmt: skip
