"""Mutants of policy tests: each lets a test pass that is not certain, or a harmful file in."""

from __future__ import annotations

from typing import Final

from tests.mutants.mutant import Mutant

_VERDICT: Final = (
    "tests/management/policy/test_judging.py::test_verdict_names_what_contradicts_the_assertion"
)

POLICY_MUTANTS: Final = (
    Mutant(
        name="a test passes that unknown super users may break",
        file="cli/policy/results.py",
        text="    if _may_super_users_break(known, assertion) and is_doubtful:",
        becomes="    if False:",
        found_by="tests/cli/policy/test_results.py::test_test_that_depends_on_an_unknown_setting_fails_with_the_reason",
    ),
    Mutant(
        name="a test passes that an unknown default may break",
        file="cli/policy/results.py",
        text="if verdict.passed and _is_denial(assertion) and known.least != known.most:",
        becomes="if False:",
        found_by="tests/cli/policy/test_results.py::test_test_that_depends_on_an_unknown_setting_fails_with_the_reason",
    ),
    Mutant(
        name="a test proposes changes after which it may still fail",
        file="cli/policy/results.py",
        text="        if not _may_super_users_break(known, assertion):",
        becomes="        if True:",
        found_by="tests/cli/policy/test_results.py::test_verdict_without_unknown_settings_holds_for_all_of_their_values",
    ),
    Mutant(
        name="at most three principals may, although everyone may",
        file="management/policy/judging.py",
        text="passed = is_bounded and len(found) <= count",
        becomes="passed = len(found) <= count",
        found_by=_VERDICT,
    ),
    Mutant(
        name="super users do not count as principals",
        file="management/policy/judging.py",
        text="for principal in super_users - excluded:",
        becomes="for principal in ():",
        found_by=_VERDICT,
    ),
    Mutant(
        name="access from single hosts is not found",
        file="management/policy/judging.py",
        text="self._assertion.hosts or self._list_examples(principal)",
        becomes="self._assertion.hosts or self._list_examples(principal)[:1]",
        found_by=_VERDICT,
    ),
    Mutant(
        name="an assertion holds if the first release of several says so",
        file="management/policy/judging.py",
        text="snapshots = list_releases(snapshot)",
        becomes="snapshots = list_releases(snapshot)[:1]",
        found_by="tests/management/policy/test_judging.py"
        "::test_assertion_holds_only_if_it_does_by_each_release",
    ),
    Mutant(
        name="names that Kafka's wildcard skips are not judged",
        file="management/policy/name_classes.py",
        text="chain(patterns, _BOUNDARIES)",
        becomes="patterns",
        found_by=_VERDICT,
    ),
    Mutant(
        name="patterns of other principals do not limit the default access",
        file="management/policy/judging.py",
        text="        if self._settings.allow_everyone_if_no_acl_found:\n            patterns +=",
        becomes="        if False:\n            patterns +=",
        found_by=_VERDICT,
    ),
    Mutant(
        name="a policy file may contain anchors",
        file="cli/policy/yaml_tree.py",
        text="if event.anchor is not None:",
        becomes="if False:",
        found_by="tests/cli/policy/test_document.py::test_small_file_does_not_become_a_large_tree",
    ),
    Mutant(
        name="a policy file may be nested deeply",
        file="cli/policy/yaml_tree.py",
        text="if depth > DEPTH_MAX:",
        becomes="if False:",
        found_by="tests/cli/policy/test_document.py::test_fault_is_reported_at_its_place",
    ),
    Mutant(
        name="a plan may remove ACLs that are not present",
        file="cli/policy/command.py",
        text="        if acl_id is None:\n            raise",
        becomes="        if acl_id is None:\n            continue\n            raise",
        found_by="tests/cli/policy/test_command.py::test_removed_acl_that_is_not_present_is_an_error",
    ),
    Mutant(
        name="a comma cuts a distinguished name in two principals",
        file="management/policy/sentence.py",
        text="        _check_whole(token)\n        return (",
        becomes="        return (",
        found_by="tests/management/policy/test_sentence.py::test_unreadable_sentence_shows_where_reading_failed",
    ),
)
