"""Mutants of the commands and of the Kafka client that they use."""

from __future__ import annotations

from typing import Final

from tests.mutants.mutant import Mutant

COMMAND_MUTANTS: Final = (
    Mutant(
        name="a closed port is retried until the timeout",
        file="kafka_client/client.py",
        text="if attempts >= _UNSERVED_MAX:",
        becomes="if attempts < 0:",
        found_by="tests/kafka_client/test_client.py::test_unreachable_servers_fail_within_two_seconds",
    ),
    Mutant(
        name="every listener that closes the connection counts as one that requires a log-in",
        file="kafka_client/log_in.py",
        text="return int(answer.error_code) in (ErrorCode.NONE, ErrorCode.",
        becomes="return int(answer.error_code) in (ErrorCode.ILLEGAL_SASL_STATE, ErrorCode.",
        found_by="tests/kafka_client/test_client.py::test_listener_without_sasl_does_not_count_as_requiring_a_log_in",
    ),
    Mutant(
        name="a server that cannot sign a SCRAM log-in is trusted",
        file="kafka_client/scram.py",
        text='(_decode_base64(match["signature"]), proof.expected_signature)',
        becomes="(proof.expected_signature, proof.expected_signature)",
        found_by="tests/kafka_client/test_client.py::test_impostor_ends_the_request",
    ),
    Mutant(
        name="a server may ask for few SCRAM iterations, or for any number",
        file="kafka_client/scram.py",
        text="if not ITERATIONS_MIN <= iterations <= ITERATIONS_MAX:",
        becomes="if iterations == 0:",
        found_by="tests/kafka_client/test_scram.py::test_invalid_challenge_is_rejected",
    ),
    Mutant(
        name="a replayed SCRAM challenge is answered",
        file="kafka_client/scram.py",
        text="if not nonce.startswith(self._nonce) or nonce == self._nonce:",
        becomes="if not nonce:",
        found_by="tests/kafka_client/test_scram.py::test_invalid_challenge_is_rejected",
    ),
    Mutant(
        name="a Kafka client does not compare the host with the certificate",
        file="tls/context.py",
        text="context.check_hostname = settings.checks_host",
        becomes="context.check_hostname = False",
        found_by="tests/kafka_client/test_tls_stream.py::test_rejected_certificate_is_explained",
    ),
    Mutant(
        name="a Kafka client accepts certificates of every CA",
        file="tls/context.py",
        text="    context.verify_mode = ssl.CERT_REQUIRED\n    if settings.truststore",
        becomes="    context.check_hostname = False\n    context.verify_mode = ssl.CERT_NONE\n"
        "    if settings.truststore",
        found_by="tests/kafka_client/test_tls_stream.py::test_rejected_certificate_is_explained",
    ),
    Mutant(
        name="a late alert about the client's certificate is not explained",
        file="kafka_client/tls_stream.py",
        text="if known is not None:",
        becomes="if known is None:",
        found_by="tests/kafka_client/test_tls_stream.py::test_rejected_certificate_is_explained",
    ),
    Mutant(
        name="a listener with TLS is not recognized",
        file="kafka_client/mismatch.py",
        text="return answer.startswith(_TLS_ANSWERS)",
        becomes="return answer == b'TLS'",
        found_by="tests/kafka_client/test_mismatch.py::test_client_without_tls_is_told_that_the_listener_has_it",
    ),
    Mutant(
        name="doctor accepts a private key that every user may read",
        file="cli/doctor/certificates.py",
        text="    if found & mode:",
        becomes="    if found & mode & stat.S_IWOTH:",
        found_by="tests/cli/doctor/test_certificates.py::test_keystore_must_be_private",
    ),
    Mutant(
        name="a reader that closes the pipe changes the exit code",
        file="cli/standard_streams.py",
        text="            except BrokenPipeError:\n                self._is_lost = True\n",
        found_by="tests/cli/test_main.py::test_lost_standard_stream_does_not_change_the_exit_code",
    ),
    Mutant(
        name="explain ignores the configuration's super users",
        file="cli/source_settings.py",
        text="value = configuration.file_values.get(key, _DEFAULTS[key])",
        becomes="value = _DEFAULTS[key]",
        found_by="tests/cli/test_main.py::test_explain_prints_the_origin_of_the_settings_it_uses",
    ),
    Mutant(
        name="a value that a broker hides counts as known",
        file="cli/source_settings.py",
        text="yield Setting(key, _DEFAULTS[key], Origin.ASSUMED, _NOT_TOLD)",
        becomes="yield Setting(key, _DEFAULTS[key], Origin.BROKER, servers)",
        found_by="tests/cli/test_acl_source.py::test_settings_of_a_broker_are_known_or_assumed",
    ),
    Mutant(
        name="settings that a broker refuses to show count as known",
        file="cli/source_settings.py",
        text="        if failure:",
        becomes="        if False:",
        found_by="tests/cli/test_acl_source.py::test_settings_of_a_broker_are_known_or_assumed",
    ),
    Mutant(
        name="who-can does not name those who are excluded from what everyone may do",
        file="cli/questions/who_can.py",
        text="        if self._is_allowed(found.everyone):",
        becomes="        if False:",
        found_by="tests/cli/questions/test_answers.py::test_answer",
    ),
    Mutant(
        name="what-can shows access from other hosts than the one asked about",
        file="cli/questions/what_can.py",
        text="if is_allowed(access.hosts, host):",
        becomes="if is_allowed(access.hosts, None):",
        found_by="tests/cli/questions/test_agreement.py::test_known_topics_are_those_of_which_something_is_allowed",
    ),
    Mutant(
        name="known topics of a pattern include those of its exceptions",
        file="cli/questions/topics.py",
        text="if topic not in literals and not topic.startswith(excepted)",
        becomes="if topic not in literals",
        found_by="tests/cli/questions/test_phrases.py::test_topics_that_a_pattern_covers",
    ),
    Mutant(
        name="a name in an ACL can control the terminal",
        file="cli/questions/answers.py",
        text='f"{escape_unprintable(line)}\\n" for line in lines',
        becomes='f"{line}\\n" for line in lines',
        found_by="tests/cli/questions/test_answers.py::test_names_cannot_control_a_terminal",
    ),
    Mutant(
        name="import-config prints the broker's secrets",
        file="cli/follower_file.py",
        text="            if line.is_secret and not with_secrets:\n",
        becomes='            if line.is_secret and "jaas" in line.key and not with_secrets:\n',
        found_by="tests/cli/test_import_config.py::test_secrets_are_not_printed",
    ),
    Mutant(
        name="import-config writes secrets to a file that everyone can read",
        file="cli/import_config.py",
        text="FILE_MODE: Final = 0o600\n",
        becomes="FILE_MODE: Final = 0o644\n",
        found_by="tests/cli/test_import_config.py::test_written_file_is_new_and_only_its_owner_reads_it",
    ),
    Mutant(
        name="import-config takes over all users of a broker's JAAS line",
        file="cli/follower_file.py",
        text='self._add(name, f"{module} required {options};", is_secret=True)\n',
        becomes="self._add(name, self._texts[key], is_secret=True)\n",
        found_by="tests/cli/test_import_config.py::test_any_user_and_password_survive",
    ),
    Mutant(
        name="import-config sends a terminal control characters of a broker's file",
        file="cli/follower_file.py",
        text="escape_unprintable(text),  # a terminal obeys control characters\n",
        becomes="text,\n",
        found_by="tests/cli/test_import_config.py::test_what_cannot_be_taken_over_is_said",
    ),
    Mutant(
        name="doctor approves of a user who lacks the right to follow",
        file="cli/doctor/followed.py",
        text="    if answer.error_code == ErrorCode.CLUSTER_AUTHORIZATION_FAILED:\n",
        becomes="    if answer.failure is not None:\n",
        found_by="tests/cli/doctor/test_followed.py::test_answers_are_judged",
    ),
    Mutant(
        name="a warning of kafka-acls' replacement is a part of its output",
        file="cli/acls/runner.py",
        text='terminal.complain(f"authorizerd: warning: ',
        becomes='terminal.tell(f"authorizerd: warning: ',
        found_by="tests/cli/acls/test_command.py::test_addition_warns_of_each_surprise_once_on_standard_error",
    ),
)
