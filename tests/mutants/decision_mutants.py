"""Mutants of decisions: rules, ranges, super users, the past, and the rules of Kafka releases."""

from typing import Final

from tests.mutants.mutant import Mutant

DECISION_MUTANTS: Final = {
    # Rules
    "a range with a network interface allows": Mutant(
        file="acl/snapshot.py",
        text="counts = addresses.is_certain or weights.denial",
        becomes="counts = True",
        found_by="tests/acl/test_host_ranges.py::test_range_with_an_interface_denies_and_does_not_allow",
    ),
    "by resource type, a range does not deny": Mutant(
        file="acl/by_resource_type.py",
        text="    denials += (_denials_in_network(network, operations) for network in networks)\n",
        becomes="",
        found_by="tests/acl/test_host_ranges.py::test_range_with_an_interface_denies_and_does_not_allow",
    ),
    "an ACL on which Kafka fails is skipped": Mutant(
        file="acl/index/bits.py",
        text="        ),\n        UNJUDGEABLE_BITS,\n    )\n",
        becomes="        ),\n    )\n",
        found_by="tests/cli/test_failing_acls.py::test_nobody_but_super_users_may_do_anything_there",
    ),
    "an ACL on which Kafka fails does not count for a whole resource type": Mutant(
        file="acl/by_resource_type.py",
        text="for acl in chain(*index.unjudgeable.values())",
        becomes="for acl in index.unjudgeable if False",
        found_by="tests/cli/test_failing_acls.py::test_no_resource_of_a_type_is_allowed_from_a_host_of_such_an_acl",
    ),
    "an ALLOW on which Kafka fails counts as a grant": Mutant(
        file="acl/snapshot.py",
        text="acl.permission_type == PermissionType.ALLOW and not is_unjudgeable(acl)",
        becomes="acl.permission_type == PermissionType.ALLOW",
        found_by="tests/management/plan/test_changes.py::test_steps_are_in_the_safe_order",
    ),
    "ALLOW beats DENY": Mutant(
        file="acl/decision.py",
        text=(
            "        if bits & DENIES[operation]:\n"
            "            return False\n"
            "        if bits & allows:\n"
            "            return True\n"
        ),
        becomes=(
            "        if bits & allows:\n"
            "            return True\n"
            "        if bits & DENIES[operation]:\n"
            "            return False\n"
        ),
        found_by="tests/acl/test_standard_authorizer_answers.py::test_authorize_and_explain_agree",
    ),
    "the first ALLOW decides although a DENY for everyone matches": Mutant(
        file="acl/decision.py",
        text="if bits & allows and not (own.denials or everyone.denials):",
        becomes="if bits & allows and not own.denials:",
        found_by="tests/acl/test_standard_authorizer_answers.py::test_authorize_and_explain_agree",
    ),
    "the first ALLOW decides although a DENY for the host matches": Mutant(
        file="acl/snapshot.py",
        text="    denials = rules.denials + sign * sum([weights.denial for",
        becomes="    denials = rules.denials + sign * sum([weights.denial * (host == WILDCARD) for",
        found_by="tests/acl/test_snapshot.py::test_single_updates_and_the_bulk_load_reach_one_state",
    ),
    "a prefix with a new last character is not looked up": Mutant(
        file="acl/patterns.py",
        text="    if len(characters) != len(before):\n",
        becomes="    if not before or not characters:\n",
        found_by="tests/acl/test_snapshot.py::test_large_tables_become_the_same_change_by_change",
    ),
    "a prefix does not match the equal name": Mutant(
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
    "a principal's prefix does not match the equal name": Mutant(
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
    "READ does not imply DESCRIBE": Mutant(
        file="acl/index/bits.py",
        text="Operation.DESCRIBE: (Operation.READ, ",
        becomes="Operation.DESCRIBE: (",
        found_by="tests/acl/test_standard_authorizer_answers.py::test_every_decision_equals_kafkas",
    ),
    "DENY of READ implies DENY of DESCRIBE": Mutant(
        file="acl/index/bits.py",
        text="return (Operation.ALL, *own)",
        becomes="return (Operation.ALL, *own, *_IMPLYING.get(operation, ()))",
        found_by="tests/acl/test_standard_authorizer_answers.py::test_every_decision_equals_kafkas",
    ),
    "the literal * for one host matches nothing": Mutant(
        file="acl/patterns.py",
        text="        bits |= patterns.wildcard\n    if patterns.probes:",
        becomes="        bits |= 0\n    if patterns.probes:",
        found_by="tests/acl/test_standard_authorizer_answers.py::test_every_decision_equals_kafkas",
    ),
    "the literal * matches nothing": Mutant(
        file="acl/decision.py",
        text="            bits |= patterns.wildcard",
        becomes="            bits |= 0",
        found_by="tests/acl/test_decision.py::test_the_wildcard_matches_every_other_name",
    ),
    "the literal * of everyone matches names that begin with it": Mutant(
        file="acl/patterns.py",
        text="return name < AFTER_WILDCARD and name > WILDCARD",
        becomes="return False",
        found_by="tests/acl/test_decision.py::test_decisions_agree_with_a_scan",
    ),
    "a principal's literal * matches names that begin with it": Mutant(
        file="acl/decision.py",
        text="if patterns.wildcard and not (resource_name < AFTER_WILDCARD and",
        becomes="if patterns.wildcard and not (resource_name > AFTER_WILDCARD and",
        found_by="tests/acl/test_decision.py::test_the_wildcard_does_not_match_names_that_begin_with_it",
    ),
    "a host is compared by its prefix": Mutant(
        file="acl/decision.py",
        text="patterns = rules.hosts.get(host)",
        becomes="patterns = next((p for h, p in rules.hosts.items() if host.startswith(h)), None)",
        found_by="tests/acl/test_decision.py::test_a_host_is_exact_text",
    ),
    "an unknown host is allowed by a rule for one host": Mutant(
        file="acl/decision.py",
        text="return DENIES[operation] if denied else 0",
        becomes="return DENIES[operation] if denied else ALLOWS[operation]",
        found_by="tests/acl/test_decision.py::test_an_unknown_host_is_allowed_only_by_rules_for_every_host",
    ),
    "a DENY for one host does not apply to an unknown host": Mutant(
        file="acl/decision.py",
        text="return DENIES[operation] if denied else 0",
        becomes="return 0",
        found_by="tests/acl/test_decision.py::test_an_unknown_host_is_denied_by_a_rule_for_one_host",
    ),
    "a DENY of a range does not count": Mutant(
        file="acl/decision.py",
        text="if in_range & HOST_DENIES[operation]:",
        becomes="if in_range & 0:",
        found_by="tests/acl/test_host_ranges.py::test_decision_follows_the_release",
    ),
    "an ALLOW of a range counts while releases are unknown": Mutant(
        file="acl/decision.py",
        text="if in_range & RANGE_ALLOWS[operation] and releases.range_allows:",
        becomes="if in_range & RANGE_ALLOWS[operation]:",
        found_by="tests/acl/test_host_ranges.py::test_decision_follows_the_release",
    ),
    "Kafka 4.3 reads ranges": Mutant(
        file="acl/releases.py",
        text="range_denies=bool(named & READS_RANGES)",
        becomes="range_denies=True",
        found_by="tests/acl/test_host_ranges.py::test_decision_follows_the_release",
    ),
    "a range of IPv6 matches IPv4": Mutant(
        file="acl/host_ranges.py",
        text="_IPV6_MARK: Final = 0b11 << _IPV6_BITS",
        becomes="_IPV6_MARK: Final = 0b10 << _IPV6_BITS",
        found_by="tests/acl/test_host_ranges.py::test_decision_follows_the_release",
    ),
    "an ACL whose principal has no colon denies nobody": Mutant(
        file="acl/index/bits.py",
        text="        UNJUDGEABLE_BITS,\n    )",
        becomes="        0,\n    )",
        found_by="tests/acl/test_host_ranges.py::test_decision_follows_the_release",
    ),
    "allow.everyone does not see the ACLs of other principals": Mutant(
        file="acl/decision.py",
        text="    return settings.allow_everyone_if_no_acl_found and not look_up(index.resources",
        becomes="    return settings.allow_everyone_if_no_acl_found and not (bits",
        found_by="tests/acl/test_decision.py::test_any_matching_pattern_turns_the_default_to_deny",
    ),
    "a denied super user is denied": Mutant(
        file="acl/decision.py",
        text="    if principal in settings.super_users:\n        return True\n",
        found_by="tests/acl/test_decision.py::test_a_super_user_is_allowed_whatever_is_denied",
    ),
    "a search takes an ALLOW whose range brokers may not read for one that allows": Mutant(
        file="acl/search/joined_rules.py",
        text="if bits & allows and is_certain(host)]",
        becomes="if bits & allows]",
        found_by="tests/acl/search/test_subjects.py::test_results_agree_with_every_decision",
    ),
    "a page of a search misses the exceptions behind it": Mutant(
        file="acl/search/regions.py",
        text="any(rules.denials for rules in sources)",
        becomes="False",
        found_by="tests/acl/search/test_resources.py::test_page_has_exceptions_that_are_in_no_page",
    ),
    "User:* is answered like a user": Mutant(
        file="acl/decision.py",
        text="elif principal != WILDCARD_PRINCIPAL:",
        becomes="elif principal:",
        found_by="tests/acl/test_decision.py::test_a_question_about_everyone_is_rejected",
    ),
    "an unknown permission allows": Mutant(
        file="acl/index/bits.py",
        text=("if acl.permission_type == PermissionType.ALLOW:\n        return 1 << acl.operation"),
        becomes=(
            "if acl.permission_type != PermissionType.DENY:\n        return 1 << acl.operation"
        ),
        found_by="tests/acl/test_decision.py::test_an_unknown_permission_denies",
    ),
    "a batch adds one binding twice": Mutant(
        file="acl/snapshot.py",
        text="added, PLAIN_BITS if sign > 0 else 0)",
        becomes="added)",
        found_by="tests/acl/test_snapshot.py::test_a_repeated_binding_is_refused_on_both_paths",
    ),
    "of prefixes added together, only one is looked up": Mutant(
        file="acl/patterns.py",
        text="    for prefix, change in changed:\n",
        becomes="    for prefix, change in [*changed][:1]:\n",
        found_by="tests/acl/test_snapshot.py::test_large_tables_become_the_same_change_by_change",
    ),
    "a deleted ACL still decides": Mutant(
        file="acl/snapshot.py",
        text="        types[code] = _change_type(types[code], weighted, sign)\n",
        becomes=(
            "        if sign > 0:\n"
            "            types[code] = _change_type(types[code], weighted, sign)\n"
        ),
        found_by="tests/acl/test_snapshot.py::test_a_removed_binding_can_be_added_again",
    ),
    "a loaded DENY for one host does not apply to unknown hosts": Mutant(
        file="acl/index/builder.py",
        text="        if not denial:\n",
        becomes="        if True:\n",
        found_by="tests/acl/test_decision.py::test_an_unknown_host_is_denied_by_a_rule_for_one_host",
    ),
    "by resource type, a fully denied prefix is allowed": Mutant(
        file="acl/by_resource_type.py",
        text="denials_at(_PREFIXED, name[:length])",
        becomes="denials_at(_LITERAL, )",
        found_by="tests/acl/test_standard_authorizer_answers.py::test_every_answer_by_resource_type_equals_kafkas",
    ),
    "MATCH treats a prefix as a literal": Mutant(
        file="acl/filters.py",
        text="return name.startswith(pattern_name)",
        becomes="return name == pattern_name",
        found_by="tests/acl/test_filters.py::test_pattern_types_match_as_kip_290_says",
    ),
    "an ACL that was removed and created again in one flush stays removed": Mutant(
        file="acl/updates.py",
        text="        if acl in self.added:\n            return True\n",
        found_by="tests/acl/test_updates.py::test_plans_at_the_tail_equal_plans_after_the_changes_are_applied",
    ),
    "a deletion reports any number of matches": Mutant(
        file="acl/updates.py",
        text="elif self._count > MATCHES_PER_REQUEST_MAX or",
        becomes="elif",
        found_by="tests/acl/test_updates.py::test_deletions_that_report_too_much_are_refused_whole",
    ),
    "a deletion may remove any number of ACLs": Mutant(
        file="acl/updates.py",
        text="if len(self.removed) > RECORDS_PER_REQUEST_MAX:",
        becomes="if not self.removed:",
        found_by="tests/acl/test_updates.py"
        "::test_deletions_stop_at_the_first_removal_above_the_limit",
    ),
    # The past
    "anyone may ask about the past of others": Mutant(
        file="daemon/decisions/authzen.py",
        text=(
            '"it is about an earlier moment"\n'
            "        self._check(requester, EVALUATIONS, question.principal)\n"
        ),
        becomes='"it is about an earlier moment"\n',
        found_by="tests/daemon/decisions/test_past_requests.py::test_question_about_the_past_needs_the_right_to_read",
    ),
    "a question about the past needs no right to read": Mutant(
        file="daemon/decisions/http_surface.py",
        text="            self._check(requester, PAST)\n",
        becomes="            pass\n",
        found_by="tests/daemon/decisions/test_past_requests.py::test_question_about_the_past_needs_the_right_to_read",
    ),
    "a log that ends before the newest state is used for the past": Mutant(
        file="metadata/past/history.py",
        text="    check_complete(first_pass.last.offset, newest)\n",
        found_by="tests/daemon/queries/test_past_state.py::test_log_that_lags_is_not_used",
    ),
    "any number of changes is undone": Mutant(
        file="metadata/past/history.py",
        text="if self._changes_max is not None and len(self._changes) > self._changes_max:",
        becomes="if self._changes_max is None and len(self._changes) > 9:",
        found_by="tests/daemon/queries/test_past_state.py::test_changes_are_limited",
    ),
    "a caller learns the names of new topics by a right that it had before": Mutant(
        file="acl/search/names.py",
        text="    known_by = snapshot if describable is None else describable\n",
        becomes="    known_by = snapshot\n",
        found_by="tests/daemon/decisions/test_past_requests.py::test_names_of_today_are_shown_by_the_rights_of_now",
    ),
    # Kafka releases
    "a node of an unknown level counts as one of 4.3": Mutant(
        file="acl/releases.py",
        text="    if 0 <= level < _LEVEL_OF_4_4 - 1:\n",
        becomes="    if level < _LEVEL_OF_4_4 - 1:\n",
        found_by="tests/acl/test_release_in_force.py::test_level_belongs_to_releases",
    ),
    "a controller that votes and has not registered is overlooked": Mutant(
        file="acl/release_in_force.py",
        text="    for node_id in sorted(voters or ()):\n",
        becomes="    for node_id in ():\n",
        found_by="tests/acl/test_release_in_force.py::test_rules_and_their_reason",
    ),
    "a state keeps the rules of the one before it": Mutant(
        file="actors/published_state.py",
        text="        snapshot = with_rules(snapshot, self._release.newest.rules)\n",
        becomes="        if not self._is_loaded:\n"
        "            snapshot = with_rules(snapshot, self._release.newest.rules)\n",
        found_by="tests/actors/test_record_applier.py::test_each_state_has_the_rules_of_its_own_image",
    ),
    "decisions go on at a newer release although they must stop": Mutant(
        file="actors/published_state.py",
        text='        untested = UNTESTED if release.newer and self._stops_if_newer else ""\n',
        becomes='        untested = ""\n',
        found_by="tests/actors/test_record_applier.py::test_newer_release_stops_decisions_if_set",
    ),
    "a worker does not get the registrations": Mutant(
        file="protocol/worker_changes.py",
        text='                yield "registered", (int(is_controller), id, level)\n',
        becomes="                continue\n",
        found_by="tests/protocol/test_worker_feed.py::test_worker_learns_what_proves_the_releases",
    ),
    "a copy's checkpoint loses the registrations": Mutant(
        file="metadata/checkpoint_writer.py",
        text="    for node in cluster.nodes.values() if state.keeps_nodes else ():\n",
        becomes="    for node in ():\n",
        found_by="tests/metadata/test_checkpoint_writer.py::test_only_a_checkpoint_of_a_copy_keeps_registrations",
    ),
    "a decision compares all spellings of a network": Mutant(
        file="acl/deciding.py",
        text="islice(each.values(), HOSTS_COMPARED)",
        becomes="each.values()",
        found_by="tests/acl/test_host_ranges.py::test_many_ranges_do_not_slow_decisions",
    ),
    "the rule of a network is sought at another pattern": Mutant(
        file="acl/deciding.py",
        text="found.append((network, _choose_leaf(leaves, denies, name)))",
        becomes="found.append((network, leaves[0]))",
        found_by="tests/acl/test_host_ranges.py::test_rule_of_a_network_is_the_one_that_kafka_names",
    ),
    "the networks of a question are not counted": Mutant(
        file="daemon/decisions/question_cost.py",
        text="lookups * (1 + index.networks_max)",
        becomes="lookups",
        found_by="tests/daemon/decisions/test_question_cost.py::test_each_network_of_one_principal_is_looked_up",
    ),
    "the stream ignores what the audit costs": Mutant(
        file="daemon/decisions/stream_server.py",
        text="bound_explanation if authorizer.names_rules else bound_lookups",
        becomes="bound_lookups",
        found_by="tests/daemon/decisions/test_stream_server.py::test_questions_of_many_lookups_take_more_turns",
    ),
    "by resource type, all networks are searched in one step": Mutant(
        file="acl/by_resource_type.py",
        text="        yield  # there may be hundreds of networks\n    return False\n",
        becomes="    return False\n    yield\n",
        found_by="tests/acl/test_by_resource_type.py::test_denials_of_each_network_are_looked_up_in_a_step_of_their_own",
    ),
}
