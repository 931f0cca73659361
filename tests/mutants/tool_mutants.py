"""Mutants of commands, formats, replay and client libraries, where they guard ACLs and secrets."""

from typing import Final

from tests.mutants.mutant import Mutant

TOOL_MUTANTS: Final = {
    # Verification
    "a state that was replaced within the window counts as a difference": Mutant(
        file="ops/replay/verify/history.py",
        text="bisect_right(states, at_ms - window_ms,",
        becomes="bisect_right(states, at_ms,",
        found_by="tests/ops/replay/verify/test_verify.py::test_result_is_that_of_plain_scans",
    ),
    "an agreement without evidence is a success": Mutant(
        file="ops/replay/verify/command.py",
        text="return EXIT_NO_EVIDENCE if verified.lacks else EXIT_DONE",
        becomes="return EXIT_DONE",
        found_by="tests/ops/replay/verify/test_verify.py"
        "::test_agreement_is_a_success_only_with_evidence",
    ),
    "a record with a gap proves that nobody loses access": Mutant(
        file="ops/replay/whatif/report.py",
        text="for gap in self.gaps:",
        becomes="for gap in ():",
        found_by="tests/ops/replay/whatif/test_evaluation.py"
        "::test_a_record_that_proves_nothing_is_exit_code_5",
    ),
    "an ACL is called unused by a record with a gap": Mutant(
        file="ops/replay/usage/evaluation.py",
        text="for gap in find_gaps(source):",
        becomes="for gap in ():",
        found_by="tests/ops/replay/local/test_usage.py::test_sample_supports_no_claim",
    ),
    "a log that was rotated before it is read loses its lines": Mutant(
        file="ops/replay/local/parts.py",
        text="status.st_ino != self.inode or status.st_size < self.end",
        becomes="False",
        found_by="tests/ops/replay/local/test_writing.py"
        "::test_log_that_is_rotated_before_it_is_read_is_named",
    ),
    "a recorded rule that is impossible counts as agreement": Mutant(
        file="ops/replay/verify/judging.py",
        text="if not case.names_kafkas_rule or recorded.rule == str(decision.rule):",
        becomes="if True:",
        found_by="tests/ops/replay/verify/test_verify.py::test_rule_must_be_possible_too",
    ),
    "a decision after the end of the log counts as a difference": Mutant(
        file="ops/replay/verify/judging.py",
        text="end_ms <= case.part.last_ms + self.window_ms",
        becomes="False",
        found_by="tests/ops/replay/verify/test_causes.py::test_decision_that_a_later_change_may_explain_is_not_judged",
    ),
    "a job numbers the lines of each block from 1": Mutant(
        file="ops/replay/verify/parts.py",
        text="line=begin + line",
        becomes="line=line",
        found_by="tests/ops/replay/verify/test_parts.py::test_parts_give_the_report_of_one_process",
    ),
    "a job judges the events of a request apart": Mutant(
        file="ops/replay/verify/parts.py",
        text="crc32(repr(counted[:6]).encode())",
        becomes="crc32(repr((counted, file, block)).encode())",
        found_by="tests/ops/replay/verify/test_parts.py::test_parts_give_the_report_of_one_process",
    ),
    "a job mixes events before and after a change": Mutant(
        file="ops/replay/verify/parts.py",
        text="merged.setdefault((summand, file, place), part)",
        becomes="merged.setdefault((summand, file, 0), part)",
        found_by="tests/ops/replay/verify/test_parts.py::test_parts_give_the_report_of_one_process",
    ),
    "a job forgets that differences are not listed": Mutant(
        file="ops/replay/verify/sums.py",
        text="sum(group.left_out for group in groups)",
        becomes="0",
        found_by="tests/ops/replay/verify/test_parts.py::test_parts_give_the_report_of_one_process",
    ),
    "a JVM that waits for its cluster outlives a killed command": Mutant(
        file="ops/replay/command_lock.py",
        text="os.killpg(group, signal.SIGKILL)",
        becomes="pass",
        found_by="tests/ops/replay/submit/test_files.py"
        "::test_all_processes_of_a_job_end_when_its_command_is_killed",
    ),
    "settings of a broker that differ are a success": Mutant(
        file="ops/replay/verify/command.py",
        text="verified.differences or verified.settings",
        becomes="verified.differences",
        found_by="tests/ops/replay/verify/test_settings.py::test_setting_that_differs_is_a_difference",
    ),
    "a probe takes what is not visible for denied": Mutant(
        file="cli/probe/comparing.py",
        text="        elif is_visible is False:",
        becomes="        elif False:",
        found_by="tests/cli/probe/test_probe.py::test_agreement_is_counted",
    ),
    "a probe may create topics": Mutant(
        file="cli/probe/brokers.py",
        text="allow_auto_topic_creation=False",
        becomes="allow_auto_topic_creation=True",
        found_by="tests/cli/probe/test_probe.py::test_agreement_is_counted",
    ),
    "a probe takes a question that the daemon refuses for denied": Mutant(
        file="cli/probe/deciding.py",
        text="if each.context.error is not None:",
        becomes="if False:",
        found_by="tests/cli/probe/test_command.py::test_side_that_does_not_answer_is_a_fault",
    ),
    "a line is judged before its history is known": Mutant(
        file="ops/replay/verify/follow/shadow.py",
        text="lambda at_ms: until_ms < at_ms <= ahead_ms",
        becomes="lambda at_ms: False",
        found_by="tests/ops/replay/verify/follow/test_shadow.py"
        "::test_line_waits_until_the_history_is_known_past_its_window",
    ),
    "a state file of another version is read": Mutant(
        file="protocol/verification.py",
        text="if (head.kind, head.version) == (KIND, VERSION):",
        becomes="if head.kind == KIND:",
        found_by="tests/daemon/console/pages/test_verify.py::test_unreadable_file_is_no_figure",
    ),
    "the console shows old findings as current": Mutant(
        file="daemon/console/pages/verify.py",
        text="abs(at_ms - found.read_ms) > STALE_S * 1000",
        becomes="False",
        found_by="tests/daemon/console/pages/test_verify.py"
        "::test_old_or_incomplete_figures_are_named",
    ),
    "a truncated log is read on at the old position": Mutant(
        file="ops/replay/verify/follow/files.py",
        text="            if not self._has_read(self._descriptor):\n",
        becomes="            if False:\n",
        found_by="tests/ops/replay/verify/follow/test_shadow.py"
        "::test_log_that_was_renamed_or_truncated_between_two_readings_is_read_to_its_end",
    ),
    "records of a topic that was created again are taken for those of the old one": Mutant(
        file="ops/replay/verify/follow/topics.py",
        text="        if self._found is None or found.topic_id != self._found.topic_id:\n",
        becomes="        if False:\n",
        found_by="tests/ops/replay/verify/follow/test_topics.py"
        "::test_topic_that_is_created_again_while_it_is_read_is_not_mixed_up",
    ),
    "deleted records are counted before the lines that wait": Mutant(
        file="ops/replay/verify/follow/topics.py",
        text="        if partition.waiting:\n            return False\n",
        becomes="",
        found_by="tests/ops/replay/verify/follow/test_topics.py"
        "::test_gap_is_counted_with_the_position_that_is_past_it",
    ),
    "a topic that does not answer seems to have no lines": Mutant(
        file="ops/replay/verify/follow/topics.py",
        text="            self.silent_ms = since_ms\n",
        becomes="            self.silent_ms = None\n",
        found_by="tests/ops/replay/verify/follow/test_topics.py"
        "::test_absence_is_reported_once_and_ends_only_the_first_start",
    ),
    "a topic goes on where it has records, whatever it lacks": Mutant(
        file="ops/replay/verify/topic_client.py",
        text='    "auto.offset.reset": "error",\n',
        becomes='    "auto.offset.reset": "earliest",\n',
        found_by="tests/ops/replay/verify/test_topic_client.py::test_deleted_records_are_reported",
    ),
    # Import and export
    "an ALLOW is sent together with a DENY": Mutant(
        file="cli/transfer/cluster_place.py",
        text="    for grants in (False, True):\n",
        becomes=("    yield from split_joined(acls)\n    for grants in ():\n"),
        found_by="tests/cli/transfer/test_cluster_place.py::test_denials_are_acknowledged_before_the_first_allow_is_sent",
    ),
    "a crash leaves a part of an import": Mutant(
        file="cli/transfer/log_place.py",
        text="    if len(batches) > 1:\n",
        becomes="    if False:\n",
        found_by="tests/cli/transfer/test_log_place.py::test_several_batches_become_visible_together",
    ),
    "credentials for one cluster are used for another": Mutant(
        file="cli/transfer/arguments.py",
        text="    if len(clusters) == 1:\n        return clusters[0]\n",
        becomes="    if clusters:\n        return clusters[0]\n",
        found_by="tests/cli/transfer/test_command.py::test_arguments_that_cannot_be_combined_exit_with_2",
    ),
    # Formats of ACLs
    "the console reads ACLs in formats that are slow to read": Mutant(
        file="daemon/queries/candidates.py",
        text='read_acl_text(text, "", PASTED_FORMATS)',
        becomes='read_acl_text(text, "")',
        found_by="tests/daemon/queries/test_candidates.py::test_other_texts_are_rejected",
    ),
    "aliases may make a small file large": Mutant(
        file="management/formats/parsing.py",
        text="elif values + size.values > _VALUES_MAX:",
        becomes="elif False:",
        found_by="tests/management/formats/test_document.py::test_aliases_count_as_copies",
    ),
    "a custom role that denies is read as one that allows": Mutant(
        file="management/formats/julie_roles.py",
        text="if ascii_upper(permission_type) != PermissionType.ALLOW.name:",
        becomes="if False:",
        found_by="tests/management/formats/test_julie.py::test_fault_is_named_with_its_place",
    ),
    # ACLs in ZooKeeper
    "ALLOWs reach ZooKeeper before the DENYs that limit them": Mutant(
        file="cli/zookeeper/writing.py",
        text="    yield from denials.items()\n    yield from grants.items()\n",
        becomes="    yield from grants.items()\n    yield from denials.items()\n",
        found_by="tests/cli/zookeeper/test_writing.py::test_denials_are_written_before_the_first_grant",
    ),
    "passwords are in kazoo's log": Mutant(
        file="cli/zookeeper/session.py",
        text=(
            '    logger = logging.Logger("kazoo", level=logging.CRITICAL + 1)\n'
            "    logger.disabled = True\n"
        ),
        becomes='    logger = logging.getLogger("kazoo")\n',
        found_by="tests/cli/zookeeper/test_session.py::test_no_password_in_log",
    ),
    # Plans
    "a plan deletes DENYs before ALLOWs": Mutant(
        file="management/plan/changes.py",
        text='"delete_allow", "delete_deny")',
        becomes='"delete_deny", "delete_allow")',
        found_by="tests/management/plan/test_changes.py::test_no_moment_allows_more_than_both_states",
    ),
    "a plan deletes ACLs that it does not manage": Mutant(
        file="management/plan/changes.py",
        text=" and selector.manages(acl)",
        found_by="tests/management/plan/test_changes.py::test_plan_changes_what_it_manages_and_nothing_else",
    ),
    # Commands
    "a server that cannot sign a SCRAM log-in is trusted": Mutant(
        file="kafka_client/scram.py",
        text='(_decode_base64(match["signature"]), proof.expected_signature)',
        becomes="(proof.expected_signature, proof.expected_signature)",
        found_by="tests/kafka_client/test_client.py::test_impostor_ends_the_request",
    ),
    "a Kafka client does not compare the host with the certificate": Mutant(
        file="tls/context.py",
        text="context.check_hostname = settings.checks_host",
        becomes="context.check_hostname = False",
        found_by="tests/kafka_client/test_tls_stream.py::test_rejected_certificate_is_explained",
    ),
    "a Kafka client accepts certificates of every CA": Mutant(
        file="tls/context.py",
        text="    context.verify_mode = ssl.CERT_REQUIRED\n    if settings.truststore",
        becomes=(
            "    context.check_hostname = False\n"
            "    context.verify_mode = ssl.CERT_NONE\n"
            "    if settings.truststore"
        ),
        found_by="tests/kafka_client/test_tls_stream.py::test_rejected_certificate_is_explained",
    ),
    "import-config takes hidden super users for none": Mutant(
        file="cli/follower_file.py",
        text="        self._made.unknown.append(name)\n",
        found_by="tests/cli/test_import_config.py::test_what_cannot_be_taken_over_is_said",
    ),
    "a denial is certain although the super users are unknown": Mutant(
        file="acl/known_settings.py",
        text="if principal is not None and known.super_users is None:",
        becomes="if False:",
        found_by="tests/acl/test_known_settings.py::test_doubt_names_what_is_unknown",
    ),
    "a denial is certain although the default is unknown": Mutant(
        file="acl/known_settings.py",
        text="    if known.may_open(snapshot, resource_type, resource_name):",
        becomes="    if False:",
        found_by="tests/acl/test_known_settings.py::test_doubt_names_what_is_unknown",
    ),
    "a name in an ACL can control the terminal": Mutant(
        file="cli/output.py",
        text="paint(escape_unprintable(line), out)",
        becomes="paint(line, out)",
        found_by="tests/cli/questions/test_answers.py::test_names_cannot_control_a_terminal",
    ),
    "import-config writes secrets to a file that everyone can read": Mutant(
        file="cli/import_config.py",
        text="FILE_MODE: Final = 0o600\n",
        becomes="FILE_MODE: Final = 0o644\n",
        found_by="tests/cli/test_import_config.py::test_written_file_is_new_and_only_its_owner_reads_it",
    ),
    "a password is read from a profile that others may read": Mutant(
        file="cli/profile.py",
        text="if secret is not None and mode & ~MODE:",
        becomes="if secret is not None and mode & 0o007:",
        found_by="tests/cli/test_profile.py::test_unusable_profile_is_rejected",
    ),
    "the password of a profile is sent to a server that a flag names": Mutant(
        file="cli/profile.py",
        text="if any(getattr(request, name) is not None for name in names):",
        becomes="if None not in (request.bootstrap_server, request.command_config):",
        found_by="tests/cli/test_profile.py::test_profile_is_used_as_a_whole_or_not_at_all",
    ),
    # Metadata shell
    "the shell prints the salts of SCRAM users": Mutant(
        file="cli/shell/java_text.py",
        text='f"ScramCredentialData(salt={REDACTED}, ',
        becomes='f"ScramCredentialData(salt={credential.salt.hex()}, ',
        found_by="tests/cli/shell/test_log_tree.py::test_no_secret_is_printed",
    ),
    # Replay: ingest
    "a commit counts before its run is on the disk": Mutant(
        file="ops/replay/ingest/committing.py",
        text='for name in (*names, ""):',
        becomes="for name in ():",
        found_by="tests/ops/replay/ingest/test_commits.py::test_run_and_commit_are_on_the_disk_before_the_commit_counts",
    ),
    # Replay
    "the secrets of a spark-submit line are shown": Mutant(
        file="ops/replay/submit/submitter.py",
        text='== "--conf" and _SECRET.search(word):',
        becomes='== "--conf" and not _SECRET.search(word):',
        found_by="tests/ops/replay/submit/test_line.py::test_secret_is_used_but_not_shown",
    ),
    "a program in the current folder lists the ACLs of a cluster": Mutant(
        file="ops/replay/acls/reading.py",
        text='(sys.executable, "-P", "-m",',
        becomes='(sys.executable, "-m",',
        found_by="tests/ops/replay/acls/test_reading.py::test_folder_named_authorizerd_is_not_imported",
    ),
    "a load does not check the host name of its target": Mutant(
        file="ops/replay/load/lanes/connection.py",
        text="        return tls.wrap_socket(",
        becomes="        tls.check_hostname = False\n        return tls.wrap_socket(",
        found_by="tests/ops/replay/load/lanes/test_connection.py::test_target_with_tls_is_checked",
    ),
    # Client libraries
    "a client takes an unknown decision in a batch for a permission": Mutant(
        file="clients/python/src/authorizerd_client/values.py",
        text="[code == ALLOWED for",
        becomes="[code != DENIED for",
        found_by="tests/clients/test_all_clients.py::test_only_the_decision_1_allows",
    ),
    "a client takes an unknown decision for a permission": Mutant(
        file="clients/python/src/authorizerd_client/values.py",
        text="return code == ALLOWED",
        becomes="return code != DENIED",
        found_by="tests/clients/test_all_clients.py::test_only_the_decision_1_allows",
    ),
    "a client takes the answer to another question": Mutant(
        file="clients/python/src/authorizerd_client/protocol.py",
        text="self._in_flight[0].correlation_id != answer.correlation_id:",
        becomes="False:",
        found_by="tests/clients/test_all_clients.py::test_invalid_answer_is_never_a_permission",
    ),
    "a client forgets the offset that it must require": Mutant(
        file="clients/python/src/authorizerd_client/client.py",
        text="min_offset = max(min_offset, self._required_offset)",
        becomes="pass",
        found_by="tests/clients/test_failover.py::test_own_writes_are_read_through_another_daemon",
    ),
    "a client ignores the TLS context of an address without TLS": Mutant(
        file="clients/python/src/authorizerd_client/tls.py",
        text="        if context is not None:\n",
        becomes="        if False:\n",
        found_by="tests/clients/test_python_tls.py::test_tls_for_a_plain_address_is_rejected",
    ),
    "a client's default context trusts every certificate": Mutant(
        file="clients/python/src/authorizerd_client/tls.py",
        text="context or ssl.create_default_context()",
        becomes="context or ssl._create_unverified_context()",
        found_by="tests/clients/test_python_tls.py::test_fault_is_named_at_once",
    ),
    "a client's default context checks no host name": Mutant(
        file="clients/python/src/authorizerd_client/tls.py",
        text="    endpoint.new_session()",
        becomes="    endpoint.context.check_hostname = False\n    endpoint.new_session()",
        found_by="tests/clients/test_python_tls.py::test_default_context_checks_certificate_and_host",
    ),
    "the JavaScript client sends its token to a server that it does not trust": Mutant(
        file="clients/javascript/lib/link.js",
        text='this.#socket.once("secureConnect", () => {',
        becomes='this.#socket.once("connect", () => {',
        found_by="tests/clients/test_python_tls.py::test_fault_is_named_at_once",
    ),
    "a watch goes on after changes that a fault has hidden": Mutant(
        file="clients/python/src/authorizerd_client/following.py",
        text="self._offset = None  # the events before the fault are lost",
        becomes="pass",
        found_by="tests/clients/test_watch.py::test_changes_before_a_fault_are_listed_again",
    ),
    "a package lets every user read the configuration": Mutant(
        file="tools/release/bundle.py",
        text="        (root / name).chmod(0o640)",
        becomes="        pass",
        found_by="tests/tools/release/test_release.py::"
        "test_package_for_debian_has_files_scripts_and_configuration",
    ),
}
