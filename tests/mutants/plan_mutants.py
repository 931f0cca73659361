"""Mutants of plans: each lets a plan allow too much for a moment, or change what it should not."""

from __future__ import annotations

from typing import Final

from tests.mutants.mutant import Mutant

_CHANGES: Final = "tests/management/plan/test_changes.py"
_DOCUMENT: Final = "tests/management/plan/test_document.py::test_altered_plan_is_rejected"

PLAN_MUTANTS: Final = (
    Mutant(
        name="the wildcard covers prefixes with names that it does not match",
        file="acl/index/pattern_set.py",
        text="if has_wildcard and name and not name.startswith(WILDCARD):",
        becomes="if has_wildcard:",
        found_by="tests/acl/index/test_pattern_set.py"
        "::test_pattern_covers_those_whose_names_it_all_matches",
    ),
    Mutant(
        name="a plan deletes DENYs before ALLOWs",
        file="management/plan/changes.py",
        text='"delete_allow", "delete_deny")',
        becomes='"delete_deny", "delete_allow")',
        found_by=f"{_CHANGES}::test_no_moment_allows_more_than_both_states",
    ),
    Mutant(
        name="a plan deletes ACLs that it does not manage",
        file="management/plan/changes.py",
        text=" and selector.manages(acl)",
        found_by=f"{_CHANGES}::test_plan_changes_what_it_manages_and_nothing_else",
    ),
    Mutant(
        name="the steps of a plan need not lead from the one state to the other",
        file="management/plan/document.py",
        text="    if (count, change_digest(before.digest, changes)) != (after.acls, after.digest):",
        becomes="    if count != after.acls:",
        found_by=_DOCUMENT,
    ),
    Mutant(
        name="a plan may have an ACL whose codes have no names",
        file="management/plan/document.py",
        text="    if not has_known_codes(acl):\n",
        becomes="    if not acl:\n",
        found_by=_DOCUMENT,
    ),
    Mutant(
        name="a plan that would break something can be edited so that it does not",
        file="management/plan/document.py",
        text="    if checksum != _compute_checksum(value):",
        becomes="    if checksum is None:",
        found_by=_DOCUMENT,
    ),
    Mutant(
        name="a plan replaces any file",
        file="cli/change/planning.py",
        text="    if not may_replace:",
        becomes="    if not out:",
        found_by="tests/cli/change/test_planning.py::test_only_a_plan_is_replaced",
    ),
    Mutant(
        name="a plan that deletes DENYs does not say that more is allowed",
        file="management/plan/warnings.py",
        text="    if not denials:",
        becomes="    if denials:",
        found_by="tests/management/plan/test_warnings.py::test_deleted_denials_are_announced",
    ),
    Mutant(
        name="a DENY that never matches counts as widening",
        file="management/plan/warnings.py",
        text="is_unjudgeable(acl) or not never_matches(acl.host, before.rules)",
        becomes="True",
        found_by="tests/management/plan/test_warnings.py::test_deleted_denials_are_announced",
    ),
    Mutant(
        name="a prefix of principals selects the ACLs of everyone",
        file="management/plan/selector.py",
        text="acl.principal == WILDCARD_PRINCIPAL or ",
        found_by="tests/management/plan/test_selector.py::test_selector_manages",
    ),
    Mutant(
        name="a plan deletes what a desired file grants that was not read",
        file="cli/change/planning.py",
        text="    if read.is_empty:\n",
        becomes="    if False:\n",
        found_by="tests/cli/change/test_planning.py::"
        "test_file_of_which_nothing_was_read_deletes_nothing",
    ),
    Mutant(
        name="a plan deletes what a document in a desired file grants that was not read",
        file="cli/change/planning.py",
        text="        if loss.is_document:\n",
        becomes="        if False:\n",
        found_by="tests/cli/change/test_planning.py::"
        "test_resource_of_which_nothing_was_read_deletes_nothing",
    ),
    Mutant(
        name="a plan deletes what the lost part of a desired file may grant",
        file="management/formats/model.py",
        text="return not self.losses or self.scope is None or self.scope.includes(acl)",
        becomes="return True",
        found_by="tests/cli/change/test_planning.py::"
        "test_file_that_was_read_in_part_deletes_only_what_it_manages",
    ),
    Mutant(
        name="a resource of Kubernetes that may have ACLs is a loss among others",
        file="management/formats/unread.py",
        text="    if _ACCESS_KINDS.search(ascii_lower(kind)) or _has_access_key(resource):",
        becomes="    if False:",
        found_by="tests/management/formats/test_strimzi.py::test_resource_that_may_hold_acls_is_rejected",
    ),
    Mutant(
        name="a plan deletes the ACLs of a name whose placeholder nothing has replaced",
        file="cli/change/planning.py",
        text="            if placeholder := find_placeholder(name):",
        becomes="            if placeholder := None:",
        found_by="tests/cli/change/test_planning.py::test_name_with_a_placeholder_is_not_planned",
    ),
)
