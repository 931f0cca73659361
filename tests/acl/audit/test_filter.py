"""The audit filter and the sampler."""

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from authorizerd.acl.audit.filter import (
    ALL_RESOURCES,
    NO_FILTER,
    AuditFilter,
    ResourcePatterns,
    Sampler,
    name_patterns,
)
from authorizerd.acl.model import ResourceType

NAMES = st.text("ab:*", max_size=3)
PATTERNS = st.lists(NAMES, max_size=3)
BY_TYPE = st.dictionaries(st.sampled_from([2, 3]), PATTERNS, max_size=2)


def matches_any(patterns: list[str], name: str) -> bool:
    """Return True if one of the patterns matches, tested one by one."""
    return any(
        name[: len(pattern) - 1] == pattern[:-1] if pattern[-1:] == "*" else name == pattern
        for pattern in patterns
    )


@given(PATTERNS, NAMES)
def test_a_pattern_is_a_name_or_a_prefix(patterns: list[str], name: str) -> None:
    """The matcher agrees with a test of each pattern."""
    assert name_patterns(patterns).match(name) is matches_any(patterns, name)


@given(
    included=PATTERNS,
    excluded=PATTERNS,
    types_included=BY_TYPE,
    types_excluded=BY_TYPE,
    filters_denied=st.booleans(),
    allowed=st.booleans(),
    principal=NAMES,
    resource_type=st.sampled_from([2, 3]),
    name=NAMES,
)
def test_exclusion_beats_inclusion(
    included: list[str],
    excluded: list[str],
    types_included: dict[int, list[str]],
    types_excluded: dict[int, list[str]],
    filters_denied: bool,
    allowed: bool,
    principal: str,
    resource_type: int,
    name: str,
) -> None:
    """Principal and resource must both pass. Denials pass unless ``filters_denied`` is set."""

    def of(patterns: dict[int, list[str]]) -> ResourcePatterns:
        return ResourcePatterns({each: name_patterns(names) for each, names in patterns.items()})

    expected = (
        matches_any(included, principal)
        and not matches_any(excluded, principal)
        and matches_any(types_included.get(resource_type, []), name)
        and not matches_any(types_excluded.get(resource_type, []), name)
    )
    if not allowed and not filters_denied:
        expected = True
    audit_filter = AuditFilter(
        principals_included=name_patterns(included),
        principals_excluded=name_patterns(excluded),
        resources_included=of(types_included),
        resources_excluded=of(types_excluded),
        filters_denied=filters_denied,
    )
    assert audit_filter.admits(allowed, principal, resource_type, name) is expected


@given(st.booleans(), st.text(), st.sampled_from(ResourceType), st.text())
def test_no_filter_admits_everything(
    allowed: bool, principal: str, resource_type: ResourceType, name: str
) -> None:
    assert NO_FILTER.admits(allowed, principal, resource_type, name)
    assert ALL_RESOURCES.match(resource_type, name)


@given(
    rate=st.floats(0.001, 1),
    skipped=st.integers(0, 1000),
    period=st.integers(1, 12),
    size=st.integers(1, 2000),
)
def test_the_rate_holds_for_any_run_and_for_every_nth_item(
    rate: float, skipped: int, period: int, size: int
) -> None:
    """If a client alternates between two questions, both are sampled."""
    sampler = Sampler(rate)
    for _ in range(skipped):
        sampler.select_next()
    taken = [sampler.select_next() for _ in range(size * period)][::period]
    assert sum(taken) == pytest.approx(rate * size, abs=3 + 3 * math.log2(1 + size))


def test_rate_one_selects_everything() -> None:
    sampler = Sampler(1.0)
    assert all(sampler.select_next() for _ in range(10_000))
