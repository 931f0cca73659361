"""Mutants of explanations: changes that are too wide or change nothing, and untrue near misses."""

from __future__ import annotations

from typing import Final

from tests.mutants.mutant import Mutant

_CASES: Final = "tests/acl/explanation/test_changes.py::test_changes_of_readable_cases"

EXPLANATION_MUTANTS: Final = (
    Mutant(
        name="the ALLOW for the resource * that an explanation proposes allows every resource",
        file="acl/explanation/changes.py",
        text="PatternType.PREFIXED if name == WILDCARD else PatternType.LITERAL",
        becomes="PatternType.LITERAL",
        found_by=_CASES,
    ),
    Mutant(
        name="an explanation proposes to remove an ALLOW although the default would allow then",
        file="acl/explanation/changes.py",
        text="    return acl if is_exact and not is_replaced_by_default else None\n",
        becomes="    return acl if is_exact else None\n",
        found_by=_CASES,
    ),
    Mutant(
        name="an explanation of an unknown host forgets the ALLOWs of single hosts",
        file="acl/explanation/changes.py",
        text="if look_up(patterns, name) & allows and not",
        becomes="if 0 & allows and not",
        found_by=_CASES,
    ),
    Mutant(
        name="an explanation of an unknown host removes the DENY of one host for all others",
        file="acl/explanation/changes.py",
        text="    if question.host is None and not opens_by_default:\n",
        becomes="    if question.host == WILDCARD and not opens_by_default:\n",
        found_by=_CASES,
    ),
    Mutant(
        name="an explanation does not say from which hosts it stays denied",
        file="acl/explanation/changes.py",
        text="            stays_denied = matches.denial_count - count\n",
        becomes="            stays_denied = 0\n",
        found_by="tests/acl/explanation/test_changes.py::test_hosts_that_stay_denied_are_told",
    ),
    Mutant(
        name="an explanation proposes an ACL that Kafka refuses",
        file="acl/explanation/changes.py",
        text="    fault = find_creation_fault(acl)\n",
        becomes="    fault = None\n",
        found_by="tests/acl/explanation/test_changes.py::test_impossible_changes_have_a_reason",
    ),
    Mutant(
        name="a near miss names a network as if a client could have it",
        file="acl/explanation/near_hosts.py",
        text="        if not never_matches(host, releases):\n",
        becomes="        if host:\n",
        found_by="tests/acl/explanation/test_near_misses.py::test_sentence_of_each_near_miss",
    ),
    Mutant(
        name="a near miss blames a pattern although a DENY matches",
        file="acl/explanation/near_names.py",
        text="        if not probe.has_denial:\n",
        becomes="        if True:\n",
        found_by="tests/acl/explanation/test_near_misses.py::test_unrelated_acls_are_no_near_misses",
    ),
    Mutant(
        name="a near miss is the first similar principal, not the closest",
        file="acl/explanation/near_principals.py",
        text="        if closest is not None and closest[0] is Likeness.SAME:\n",
        becomes="        if closest is not None:\n",
        found_by="tests/acl/explanation/test_near_misses.py::test_closest_principal_is_found_among_many",
    ),
    Mutant(
        name="a principal that only contains the CN of another one resembles it",
        file="acl/text/similar_principals.py",
        text="        if self._name in common or _fold(name) in self._common:\n",
        becomes="        if any(self._name in each or _fold(name) in each for each in common):\n",
        found_by="tests/acl/explanation/test_near_misses.py::test_similar_names_and_principals_are_found",
    ),
    Mutant(
        name="an escaped blank at the end of a distinguished name's value is lost",
        file="acl/text/distinguished_names.py",
        text="    if backslashes % 2:",
        becomes="    if backslashes > 9:",
        found_by="tests/acl/text/test_distinguished_names.py::test_javas_own_names_stay_as_they_are",
    ),
)
