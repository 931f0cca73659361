"""Mutants of the ACL rules: what is allowed, what filters match, and what may be created."""

from __future__ import annotations

from typing import Final

from tests.mutants.mutant import Mutant

_WITH_INTERFACE: Final = (
    "tests/acl/test_host_ranges.py::test_range_with_an_interface_denies_and_does_not_allow"
)

_FAILING: Final = "tests/cli/test_failing_acls.py"

DECISION_MUTANTS: Final = (
    Mutant(
        name="a range with a network interface allows",
        file="acl/snapshot.py",
        text="counts = addresses.is_certain or weights.denial",
        becomes="counts = True",
        found_by=_WITH_INTERFACE,
    ),
    Mutant(
        name="an explanation allows by a range with a network interface",
        file="acl/matching.py",
        text="if releases.range_allows and is_certain(text) else",
        becomes="if releases.range_allows else",
        found_by=_WITH_INTERFACE,
    ),
    Mutant(
        name="by resource type, a range with a network interface allows",
        file="acl/by_resource_type.py",
        text="(each.hosts[text], is_certain(text))",
        becomes="(each.hosts[text], True)",
        found_by=_WITH_INTERFACE,
    ),
    Mutant(
        name="an ACL on which Kafka fails is skipped",
        file="acl/index/bits.py",
        text="        ),\n        UNJUDGEABLE_BITS,\n    )\n",
        becomes="        ),\n    )\n",
        found_by=f"{_FAILING}::test_nobody_but_super_users_may_do_anything_there",
    ),
    Mutant(
        name="an ACL on which Kafka fails does not count for a whole resource type",
        file="acl/by_resource_type.py",
        text="for acl in chain(*index.unjudgeable.values())",
        becomes="for acl in index.unjudgeable if False",
        found_by=f"{_FAILING}::test_no_resource_of_a_type_is_allowed_from_a_host_of_such_an_acl",
    ),
    Mutant(
        name="an ALLOW on which Kafka fails counts as a grant",
        file="acl/snapshot.py",
        text="acl.permission_type == PermissionType.ALLOW and not is_unjudgeable(acl)",
        becomes="acl.permission_type == PermissionType.ALLOW",
        found_by="tests/management/plan/test_changes.py::test_steps_are_in_the_safe_order",
    ),
    Mutant(
        name="the principal of an ACL on which Kafka fails is not masked",
        file="acl/audit/mask.py",
        text="        if not isinstance(rule, MatchingAcl | UnjudgeableAcl):",
        becomes="        if not isinstance(rule, MatchingAcl):",
        found_by=(
            "tests/acl/audit/test_mask.py::test_principal_without_a_colon_is_hidden_in_the_rule"
        ),
    ),
    Mutant(
        name="a DENY for a range that wakes up is said to allow",
        file="management/release_changes.py",
        text="        allows = is_grant(acl) is wakes_up",
        becomes="        allows = wakes_up",
        found_by="tests/management/test_release_changes.py::test_meanings_and_examples",
    ),
    Mutant(
        name="ALLOW beats DENY",
        file="acl/decision.py",
        text=(
            "    if bits & DENIES[operation]:\n        return False\n"
            "    if bits & allows:\n        return True\n"
        ),
        becomes=(
            "    if bits & allows:\n        return True\n"
            "    if bits & DENIES[operation]:\n        return False\n"
        ),
        found_by="tests/acl/test_standard_authorizer_answers.py::test_authorize_and_explain_agree",
    ),
    Mutant(
        name="the first ALLOW decides although a DENY for everyone matches",
        file="acl/decision.py",
        text="if bits & allows and not (own.denials or everyone.denials):",
        becomes="if bits & allows and not own.denials:",
        found_by="tests/acl/test_standard_authorizer_answers.py::test_authorize_and_explain_agree",
    ),
    Mutant(
        name="the first ALLOW for everyone decides although a DENY for the principal matches",
        file="acl/decision.py",
        text="if bits & allows and not (own.denials or everyone.denials):",
        becomes="if bits & allows and not (rules.denials or everyone.denials):",
        found_by="tests/acl/test_decision.py::test_decisions_agree_with_a_scan",
    ),
    Mutant(
        name="the first ALLOW decides although a DENY for the host matches",
        file="acl/snapshot.py",
        text="    denials = rules.denials + sign * weights.denial\n",
        becomes="    denials = rules.denials + sign * weights.denial * (acl.host == WILDCARD)\n",
        found_by="tests/acl/test_snapshot.py::test_single_updates_and_the_bulk_load_reach_one_state",
    ),
    Mutant(
        name="an explanation names the last of several rules although one denies",
        file="acl/decision.py",
        text="(matches > 1 and (can_deny or resource_name <= WILDCARD))",
        becomes="(matches > 1 and resource_name <= WILDCARD)",
        found_by="tests/acl/test_decision.py::test_decisions_agree_with_a_scan",
    ),
    Mutant(
        name="a prefix with a new last character is not looked up",
        file="acl/patterns.py",
        text="    if len(characters) != len(before):\n",
        becomes="    if not before or not characters:\n",
        found_by="tests/acl/test_snapshot.py::test_large_tables_become_the_same_change_by_change",
    ),
    Mutant(
        name="ALLOW beats DENY in explanations",
        file="acl/matching.py",
        text="    if denying:\n",
        becomes="    if denying == acls:\n",
        found_by="tests/acl/test_standard_authorizer_answers.py::test_every_audit_line_equals_kafkas",
    ),
    Mutant(
        name="a prefix does not match the equal name",
        file="acl/patterns.py",
        text=(
            "            if length <= size and (characters is None or name[last] in characters):\n"
            "                bits |="
        ),
        becomes=(
            "            if length < size and (characters is None or name[last] in characters):\n"
            "                bits |="
        ),
        found_by="tests/acl/test_standard_authorizer_answers.py::test_every_decision_equals_kafkas",
    ),
    Mutant(
        name="a principal's prefix does not match the equal name",
        file="acl/decision.py",
        text=(
            "if length <= size and (characters is None or resource_name[last] in characters):\n"
            "                    bits |= "
        ),
        becomes=(
            "if length < size and (characters is None or resource_name[last] in characters):\n"
            "                    bits |= "
        ),
        found_by="tests/acl/test_standard_authorizer_answers.py::test_authorize_and_explain_agree",
    ),
    Mutant(
        name="any address may have a zone",
        file="acl/hosts.py",
        text="not (address.is_link_local and _ZONE.fullmatch(zone))",
        becomes="not _ZONE.fullmatch(zone)",
        found_by="tests/acl/test_hosts.py::test_a_zone_never_hides_another_address",
    ),
    Mutant(
        name="a zone may be empty",
        file="acl/hosts.py",
        text='re.compile(r"[!-$&-.0-~]+")',
        becomes='re.compile(r"[!-$&-.0-~]*")',
        found_by="tests/acl/test_hosts.py::test_texts_that_are_not_addresses_give_none",
    ),
    Mutant(
        name="READ does not imply DESCRIBE",
        file="acl/index/bits.py",
        text="Operation.DESCRIBE: (Operation.READ, ",
        becomes="Operation.DESCRIBE: (",
        found_by="tests/acl/test_standard_authorizer_answers.py::test_every_decision_equals_kafkas",
    ),
    Mutant(
        name="DENY of READ implies DENY of DESCRIBE",
        file="acl/index/bits.py",
        text="return (Operation.ALL, *own)",
        becomes="return (Operation.ALL, *own, *_IMPLYING.get(operation, ()))",
        found_by="tests/acl/test_standard_authorizer_answers.py::test_every_decision_equals_kafkas",
    ),
    Mutant(
        name="the literal * for one host matches nothing",
        file="acl/patterns.py",
        text="        bits |= patterns.wildcard\n    if patterns.probes:",
        becomes="        bits |= 0\n    if patterns.probes:",
        found_by="tests/acl/test_standard_authorizer_answers.py::test_every_decision_equals_kafkas",
    ),
    Mutant(
        name="the literal * matches nothing",
        file="acl/decision.py",
        text="            bits |= patterns.wildcard",
        becomes="            bits |= 0",
        found_by="tests/acl/test_decision.py::test_the_wildcard_matches_every_other_name",
    ),
    Mutant(
        name="the literal * of everyone matches names that begin with it",
        file="acl/patterns.py",
        text="return name < AFTER_WILDCARD and name > WILDCARD",
        becomes="return False",
        found_by="tests/acl/test_decision.py::test_decisions_agree_with_a_scan",
    ),
    Mutant(
        name="a principal's literal * matches names that begin with it",
        file="acl/decision.py",
        text="if patterns.wildcard and not (resource_name < AFTER_WILDCARD and",
        becomes="if patterns.wildcard and not (resource_name > AFTER_WILDCARD and",
        found_by="tests/acl/test_decision.py::test_the_wildcard_does_not_match_names_that_begin_with_it",
    ),
    Mutant(
        name="a host is compared by its prefix",
        file="acl/decision.py",
        text="patterns = rules.hosts.get(host)",
        becomes="patterns = next((p for h, p in rules.hosts.items() if host.startswith(h)), None)",
        found_by="tests/acl/test_decision.py::test_a_host_is_exact_text",
    ),
    Mutant(
        name="an unknown host is allowed by a rule for one host",
        file="acl/decision.py",
        text="return DENIES[operation] if denied else 0",
        becomes="return DENIES[operation] if denied else ALLOWS[operation]",
        found_by="tests/acl/test_decision.py::test_an_unknown_host_is_allowed_only_by_rules_for_every_host",
    ),
    Mutant(
        name="a DENY for one host does not apply to an unknown host",
        file="acl/decision.py",
        text="return DENIES[operation] if denied else 0",
        becomes="return 0",
        found_by="tests/acl/test_decision.py::test_an_unknown_host_is_denied_by_a_rule_for_one_host",
    ),
    Mutant(
        name="the rule for an unknown host is searched among all hosts",
        file="acl/matching.py",
        text="_denials_of_hosts(rules, principal, question, snapshot.rules, 1), 1)",
        becomes="_denials_of_hosts(rules, principal, question, snapshot.rules, None), None)",
        found_by="tests/acl/test_decision.py::test_explaining_an_unknown_host_does_not_depend_on_the_number_of_hosts",
    ),
    Mutant(
        name="an ALLOW of a shorter prefix hides a DENY",
        file="acl/matching.py",
        text="next(denying, leaves[-1])",
        becomes="leaves[-1]",
        found_by="tests/acl/test_decision.py::test_explaining_does_not_depend_on_the_number_of_matching_prefixes",
    ),
    Mutant(
        name="a removed denial of one host is still named",
        file="acl/index/denying_hosts.py",
        text="hosts = index[place].delete(_digest(acl.host))",
        becomes="hosts = index[place]",
        found_by="tests/acl/test_decision.py::test_the_denial_named_for_an_unknown_host_depends_only_on_the_rules",
    ),
    Mutant(
        name="a DENY of a range does not count",
        file="acl/decision.py",
        text="if in_range & HOST_DENIES[operation]:",
        becomes="if in_range & 0:",
        found_by="tests/acl/test_host_ranges.py::test_decision_follows_the_release",
    ),
    Mutant(
        name="an ALLOW of a range counts while releases are unknown",
        file="acl/decision.py",
        text="if in_range & RANGE_ALLOWS[operation] and releases.range_allows:",
        becomes="if in_range & RANGE_ALLOWS[operation]:",
        found_by="tests/acl/test_host_ranges.py::test_decision_follows_the_release",
    ),
    Mutant(
        name="Kafka 4.3 reads ranges",
        file="acl/releases.py",
        text="range_denies=bool(named & READS_RANGES)",
        becomes="range_denies=True",
        found_by="tests/acl/test_host_ranges.py::test_decision_follows_the_release",
    ),
    Mutant(
        name="a range of IPv6 matches IPv4",
        file="acl/host_ranges.py",
        text="_IPV6_MARK: Final = 0b11 << _IPV6_BITS",
        becomes="_IPV6_MARK: Final = 0b10 << _IPV6_BITS",
        found_by="tests/acl/test_host_ranges.py::test_decision_follows_the_release",
    ),
    Mutant(
        name="a range contains 0.0.0.0",
        file="acl/host_ranges.py",
        text="return _IPV4_MARK | address if address else None",
        becomes="return _IPV4_MARK | address",
        found_by="tests/acl/test_host_ranges.py::test_range_matches_as_in_kafka",
    ),
    Mutant(
        name="the rule of a range is not named",
        file="acl/matching.py",
        text="sources.append((text, rules.hosts[text], mask))",
        becomes="sources.append((text, rules.hosts[text], 0))",
        found_by="tests/acl/test_host_ranges.py::test_decision_follows_the_release",
    ),
    Mutant(
        name="an ACL whose principal has no colon denies nobody",
        file="acl/index/bits.py",
        text="        UNJUDGEABLE_BITS,\n    )",
        becomes="        0,\n    )",
        found_by="tests/acl/test_host_ranges.py::test_decision_follows_the_release",
    ),
    Mutant(
        name="an ACL whose principal has no colon stays after its removal",
        file="acl/snapshot.py",
        text="weight = sign * UNJUDGEABLE",
        becomes="weight = UNJUDGEABLE",
        found_by="tests/acl/test_host_ranges.py::test_change_by_change_leads_to_the_same_state_as_a_bulk_load",
    ),
    Mutant(
        name="a range with a malformed length is created",
        file="acl/validation.py",
        text="        read_range(host)\n",
        becomes="        pass\n",
        found_by="tests/acl/test_validation.py::test_host_is_validated_as_by_the_release",
    ),
    Mutant(
        name="allow.everyone does not see the ACLs of other principals",
        file="acl/decision.py",
        text="    return settings.allow_everyone_if_no_acl_found and not look_up(index.resources",
        becomes="    return settings.allow_everyone_if_no_acl_found and not (bits",
        found_by="tests/acl/test_decision.py::test_any_matching_pattern_turns_the_default_to_deny",
    ),
    Mutant(
        name="a denied super user is denied",
        file="acl/decision.py",
        text="    if principal in settings.super_users:\n        return True\n",
        found_by="tests/acl/test_decision.py::test_a_super_user_is_allowed_whatever_is_denied",
    ),
    Mutant(
        name="in a search, a rule for one host allows although every host is denied",
        file="acl/search/joined_rules.py",
        text="        if self.denies or not (new_denied or new_allowed):\n",
        becomes="        if not (new_denied or new_allowed):\n",
        found_by="tests/acl/search/test_subjects.py::test_examples",
    ),
    Mutant(
        name="a search lists a host that is both allowed and denied",
        file="acl/search/joined_rules.py",
        text="allowed_hosts.difference(new_denied)",
        becomes="allowed_hosts.difference(())",
        found_by="tests/acl/search/test_subjects.py::test_examples",
    ),
    Mutant(
        name="a search lists a pattern without what is denied inside it",
        file="acl/search/regions.py",
        text="region.has_exceptions or not covers(region.access, outer.access)",
        becomes="region.has_exceptions",
        found_by="tests/acl/search/test_resources.py::test_examples",
    ),
    Mutant(
        name="a search takes an ALLOW whose range brokers may not read for one that allows",
        file="acl/search/joined_rules.py",
        text="if bits & allows and is_certain(host)]",
        becomes="if bits & allows]",
        found_by="tests/acl/search/test_subjects.py::test_results_agree_with_every_decision",
    ),
    Mutant(
        name="a search names hosts that never match",
        file="acl/search/matching_patterns.py",
        text="if bits and not never_matches(host, releases):",
        becomes="if bits:",
        found_by="tests/acl/search/test_subjects.py::test_hosts_that_never_match_say_nothing",
    ),
    Mutant(
        name="a search for resources names hosts that never match",
        file="acl/search/pattern_rules.py",
        text=" and not never_matches(host, releases):",
        becomes=":",
        found_by="tests/acl/search/test_resources.py::test_hosts_that_never_match_say_nothing",
    ),
    Mutant(
        name="a search leaves out what only one release allows",
        file="acl/search/joined_rules.py",
        text="map(any, zip(",
        becomes="map(all, zip(",
        found_by="tests/acl/search/test_hosts.py::test_ranges_are_joined_as_decisions_are_made",
    ),
    Mutant(
        name="a search names a range that narrower ranges fill",
        file="acl/search/hosts.py",
        text="outer if area.example is None else answers[number]",
        becomes="answers[number]",
        found_by="tests/acl/search/test_hosts.py::test_what_has_no_host_is_not_named",
    ),
    Mutant(
        name="a range that filled ranges contain has a host of its own",
        file="acl/search/areas.py",
        text="self._free = max(self._free, _skip(inner.end + 1))",
        becomes="pass",
        found_by="tests/acl/search/test_hosts.py::test_what_has_no_host_is_not_named",
    ),
    Mutant(
        name="names are searched by the strictest release only",
        file="acl/search/names.py",
        text="any_allows, list_releases(snapshot)",
        becomes="any_allows, (snapshot,)",
        found_by="tests/acl/search/test_names.py::test_names_that_any_release_allows_are_listed",
    ),
    Mutant(
        name="a search allows everyone although an ACL's pattern matches",
        file="acl/search/subjects.py",
        text="settings.allow_everyone_if_no_acl_found and not places.has_acl",
        becomes="settings.allow_everyone_if_no_acl_found",
        found_by="tests/acl/search/test_subjects.py"
        "::test_allow_everyone_applies_only_if_no_acls_pattern_matches",
    ),
    Mutant(
        name="User:* is answered like a user",
        file="acl/decision.py",
        text=(
            "    if principal == WILDCARD_PRINCIPAL:\n        raise everyone_error()\n"
            "    index = snapshot.types[resource_type]\n    everyone = index.everyone\n    allows"
        ),
        becomes=(
            "    index = snapshot.types[resource_type]\n    everyone = index.everyone\n    allows"
        ),
        found_by="tests/acl/test_decision.py::test_a_question_about_everyone_is_rejected",
    ),
    Mutant(
        name="an unknown permission allows",
        file="acl/index/bits.py",
        text="if acl.permission_type == PermissionType.ALLOW:\n        return 1 << acl.operation",
        becomes="if acl.permission_type != PermissionType.DENY:\n        return 1 << acl.operation",
        found_by="tests/acl/test_decision.py::test_an_unknown_permission_denies",
    ),
    Mutant(
        name="a deleted ACL still decides",
        file="acl/snapshot.py",
        text="_change_types(snapshot.types, acl, weights, -1)",
        becomes="snapshot.types",
        found_by="tests/acl/test_snapshot.py::test_a_removed_binding_can_be_added_again",
    ),
    Mutant(
        name="a loaded DENY for one host does not apply to unknown hosts",
        file="acl/index/builder.py",
        text="        if not denial:\n",
        becomes="        if True:\n",
        found_by="tests/acl/test_decision.py::test_an_unknown_host_is_denied_by_a_rule_for_one_host",
    ),
    Mutant(
        name="a second ACL of one id is loaded",
        file="acl/index/builder.py",
        text="        if len(acls) == count:\n",
        becomes="        if count < 0:\n",
        found_by="tests/acl/test_snapshot.py::test_a_repeated_id_is_refused_on_both_paths",
    ),
    Mutant(
        name="by resource type, a fully denied prefix is allowed",
        file="acl/by_resource_type.py",
        text="denials_at(_PREFIXED, name[:length])",
        becomes="denials_at(_LITERAL, )",
        found_by="tests/acl/test_standard_authorizer_answers.py::test_every_answer_by_resource_type_equals_kafkas",
    ),
    Mutant(
        name="MATCH treats a prefix as a literal",
        file="acl/filters.py",
        text="return name.startswith(pattern_name)",
        becomes="return name == pattern_name",
        found_by="tests/acl/test_filters.py::test_pattern_types_match_as_kip_290_says",
    ),
    Mutant(
        name="the operation ANY can be created",
        file="acl/validation.py",
        text="frozenset(Operation) - {Operation.UNKNOWN, Operation.ANY}",
        becomes="frozenset(Operation) - {Operation.UNKNOWN}",
        found_by="tests/acl/test_validation.py::test_creations_are_refused_with_the_controllers_text",
    ),
    Mutant(
        name="creating a present ACL writes a second record",
        file="acl/updates.py",
        text="if error is None and acl not in changes and not tail.has(acl):",
        becomes="if error is None and acl not in changes:",
        found_by="tests/daemon/kafka/test_acls.py::test_duplicate_succeeds_and_writes_nothing",
    ),
    Mutant(
        name="an ACL that was removed and created again in one flush stays removed",
        file="acl/updates.py",
        text="        if acl in self.added:\n            return True\n",
        found_by="tests/acl/test_updates.py::test_plans_at_the_tail_equal_plans_after_the_changes_are_applied",
    ),
    Mutant(
        name="an ACL that is removed in a flush is found again",
        file="acl/updates.py",
        text="if item[1] not in removed] if removed else chunk",
        becomes="if item] if removed else chunk",
        found_by="tests/acl/test_updates.py::test_plans_at_the_tail_equal_plans_after_the_changes_are_applied",
    ),
    Mutant(
        name="a filter of a deletion ignores ACLs that an earlier filter matches",
        file="acl/updates.py",
        text="        self._found.setdefault(number, []).append(acl)\n",
        becomes=(
            "        if acl_id in self.removed:\n            return\n"
            "        self._found.setdefault(number, []).append(acl)\n"
        ),
        found_by="tests/actors/test_update_queue.py::test_each_filter_sees_the_state_before_the_request",
    ),
    Mutant(
        name="a deletion by MATCH ignores prefixes",
        file="acl/index/filter_index.py",
        text="else name.startswith(pattern_name)",
        becomes="else name == pattern_name",
        found_by="tests/acl/test_filters.py::test_the_filter_index_finds_the_filters_that_match_an_acl",
    ),
    Mutant(
        name="a deletion reports any number of matches",
        file="acl/updates.py",
        text="elif self._count > MATCHES_PER_REQUEST_MAX or",
        becomes="elif",
        found_by="tests/acl/test_updates.py::test_deletions_that_report_too_much_are_refused_whole",
    ),
    Mutant(
        name="matches of equal filters count once",
        file="acl/updates.py",
        text="self._count += repeats",
        becomes="self._count += 1",
        found_by="tests/acl/test_updates.py::test_deletions_that_report_too_much_are_refused_whole",
    ),
    Mutant(
        name="a deletion reports matches of any size",
        file="acl/updates.py",
        text="self._bytes += repeats *",
        becomes="self._bytes += 0 *",
        found_by="tests/acl/test_updates.py::test_the_size_of_reported_matches_is_bounded",
    ),
    Mutant(
        name="a scan continues after the maximum of removals",
        file="acl/updates.py",
        text="                    if self.error is not None:\n                        return\n",
        found_by="tests/acl/test_updates.py::test_deletions_stop_at_the_first_removal_above_the_limit",
    ),
    Mutant(
        name="a question by resource type is answered in one chunk",
        file="acl/by_resource_type.py",
        text="                    return True\n                yield\n        yield\n",
        becomes="                    return True\n        yield\n",
        found_by="tests/acl/test_by_resource_type.py::test_long_work_is_done_in_steps",
    ),
    Mutant(
        name="a deletion may remove any number of ACLs",
        file="acl/updates.py",
        text="if len(self.removed) > RECORDS_PER_REQUEST_MAX:",
        becomes="if not self.removed:",
        found_by="tests/actors/test_update_queue.py::test_too_many_removals_delete_nothing",
    ),
    Mutant(
        name="a deletion at its limit ignores later filters",
        file="acl/updates.py",
        text="and self._last_match > self._last_new:",
        becomes="and not self.removed:",
        found_by=(
            "tests/acl/test_updates.py"
            "::test_deletions_that_match_after_the_last_possible_removal_are_refused_whole"
        ),
    ),
    Mutant(
        name="a deletion at its limit refuses a filter that completes it",
        file="acl/updates.py",
        text="self._last_new = max(self._last_new, first)",
        becomes="self._last_new = 1",
        found_by=(
            "tests/acl/test_updates.py"
            "::test_deletions_that_match_after_the_last_possible_removal_are_refused_whole"
        ),
    ),
)
