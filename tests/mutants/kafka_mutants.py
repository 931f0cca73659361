"""Mutants of Kafka listeners: rights, authentication, and names of certificates."""

from typing import Final

from tests.mutants.mutant import Mutant

KAFKA_MUTANTS: Final = {
    # Kafka listeners
    "the requests of one connection are answered concurrently": Mutant(
        file="daemon/kafka/listener.py",
        text=(
            "while (chunks := await self._answer_next()) is not None:\n"
            "                await self._send(chunks)\n"
        ),
        becomes=(
            "while (request := self._connection.next_request()) is not None:\n"
            "\n"
            "                async def answer(request: KafkaRequest = request) -> None:\n"
            "                    await self._send(await self._answer(request))\n"
            "\n"
            "                trio.lowlevel.spawn_system_task(answer)\n"
        ),
        found_by="tests/daemon/kafka/test_listener.py::test_pipelined_requests_are_answered_in_order_one_at_a_time",
    ),
    "clients are served before their log-in": Mutant(
        file="daemon/kafka/listener.py",
        text="principal = self._sasl.principal\n                if principal is None:",
        becomes=(
            'principal = self._sasl.principal or "User:ANONYMOUS"\n'
            "                if principal is None:"
        ),
        found_by="tests/daemon/kafka/test_listener_sasl.py::test_request_out_of_turn_closes_the_connection",
    ),
    "each array of a request may have the maximum of items": Mutant(
        file="protocol/kafka/body_reader.py",
        text="        self._items_left -= count\n",
        found_by="tests/protocol/kafka/test_codec.py::test_item_limit_includes_nested_arrays",
    ),
    "clients may send requests of any size before their log-in": Mutant(
        file="daemon/kafka/listener.py",
        text="request_bytes_max if sasl is None else login_bytes_max",
        becomes="request_bytes_max",
        found_by="tests/daemon/kafka/test_listener_sasl.py::test_requests_are_limited_to_4_kib_before_the_log_in",
    ),
    "a token of any size may be read before the log-in": Mutant(
        file="daemon/kafka/listener.py",
        text="LOGIN_BYTES_MAX if tokens is None else TOKEN_BYTES_MAX",
        becomes="LOGIN_BYTES_MAX if tokens is None else 2 * TOKEN_BYTES_MAX",
        found_by="tests/daemon/kafka/test_listener_sasl.py::test_large_token_logs_in_and_takes_only_free_bytes",
    ),
    "a connection keeps the free bytes of its login": Mutant(
        file="daemon/net/connection_server.py",
        text="        connection.reservation.free_bytes = FREE_BYTES\n",
        found_by="tests/daemon/kafka/test_listener_sasl.py::test_large_token_logs_in_and_takes_only_free_bytes",
    ),
    "a password is not compared": Mutant(
        file="daemon/kafka/login/sasl_plain.py",
        text="if not compare_digest(expected, password_digest(password)):",
        becomes="if user not in users.digests:",
        found_by="tests/daemon/kafka/login/test_sasl_plain.py::test_other_tokens_are_rejected",
    ),
    "a password is compared by its prefix": Mutant(
        file="daemon/kafka/login/sasl_plain.py",
        text="if not compare_digest(expected, password_digest(password)):",
        becomes='if not users.passwords.get(user, "?").startswith(password):',
        found_by="tests/daemon/kafka/login/test_sasl_plain.py::test_other_tokens_are_rejected",
    ),
    "one user logs in as another": Mutant(
        file="daemon/kafka/login/sasl_plain.py",
        text='if authorization_id not in ("", user):',
        becomes=(
            'if authorization_id == "":\n        return user\n    if authorization_id is None:'
        ),
        found_by="tests/daemon/kafka/login/test_sasl_plain.py::test_other_tokens_are_rejected",
    ),
    "a refused request gets as many results as it announces items": Mutant(
        file="protocol/kafka/body_reader.py",
        text="if count * item_bytes_min > self.end - self.position:",
        becomes="if count > self.end - self.position:",
        found_by="tests/daemon/kafka/test_acls.py::test_refused_request_gets_no_answer_many_times_its_size",
    ),
    "ACLs are created without ALTER": Mutant(
        file="daemon/kafka/dispatch.py",
        text="_Handler(acls.create, Operation.ALTER)",
        becomes="_Handler(acls.create, Operation.DESCRIBE)",
        found_by="tests/daemon/kafka/test_acls.py::test_cluster_describe_and_alter_are_required",
    ),
    "ACLs are deleted without any right": Mutant(
        file="daemon/kafka/dispatch.py",
        text="_Handler(acls.delete, Operation.ALTER)",
        becomes="_Handler(acls.delete)",
        found_by="tests/daemon/kafka/test_acls.py::test_caller_without_right_changes_and_sees_nothing",
    ),
    "ACLs are described without DESCRIBE": Mutant(
        file="daemon/kafka/dispatch.py",
        text="_Handler(acls.describe, Operation.DESCRIBE)",
        becomes="_Handler(acls.describe)",
        found_by="tests/daemon/kafka/test_acls.py::test_caller_without_right_changes_and_sees_nothing",
    ),
    "an Envelope is opened without CLUSTER_ACTION": Mutant(
        file="daemon/kafka/envelope.py",
        text="if not self._rights.may(context, Operation.CLUSTER_ACTION):",
        becomes="if not self:",
        found_by="tests/daemon/kafka/test_envelope.py::test_cluster_action_is_checked_before_decoding",
    ),
    "a forwarded request uses the forwarder's rights": Mutant(
        file="daemon/kafka/envelope.py",
        text="            principal=forwarded.principal,\n",
        found_by="tests/daemon/kafka/test_envelope.py::test_inner_principals_rights_count",
    ),
    "a client that may alter configs can become a super user": Mutant(
        file="daemon/kafka/config_change.py",
        text="if guarded and not self._is_super_user():",
        becomes="if guarded and not self:",
        found_by="tests/daemon/kafka/test_alter_configs.py::test_only_a_super_user_may_alter_guarded_keys",
    ),
    "a Kafka request of any size is read": Mutant(
        file="protocol/framing.py",
        text="if not 0 <= size <= bytes_max:",
        becomes="if size < 0:",
        found_by="tests/protocol/test_framing.py::test_impossible_size_is_rejected_at_once",
    ),
    "failed log-ins keep their connections until they are answered": Mutant(
        file="daemon/kafka/listener.py",
        text="            await trio.sleep(self._listener.failed_login_delay_s)\n",
        becomes=(
            "            self._connection.enter(Phase.ANSWERING)\n"
            "            await trio.sleep(self._listener.failed_login_delay_s)\n"
        ),
        found_by="tests/daemon/kafka/test_listener_limits.py::test_failed_log_in_gives_way",
    ),
    "SCRAM credentials are changed with DESCRIBE": Mutant(
        file="daemon/kafka/dispatch.py",
        text="_Handler(scram.alter, Operation.ALTER)",
        becomes="_Handler(scram.alter, Operation.DESCRIBE)",
        found_by="tests/daemon/kafka/test_scram_credentials.py::test_altering_requires_alter_on_the_cluster",
    ),
    "few iterations are accepted": Mutant(
        file="daemon/kafka/credential_plan.py",
        text="if asked.iterations < ITERATIONS_MIN:",
        becomes="if asked.iterations < 0:",
        found_by="tests/daemon/kafka/test_scram_credentials.py::test_bad_item_is_refused_with_kafkas_text_and_others_succeed",
    ),
    "the repr of a request contains its body": Mutant(
        file="protocol/kafka/server_connection.py",
        text="version={self.api_version})",
        becomes="version={self.api_version}, {self.body!r})",
        found_by="tests/daemon/kafka/test_scram_credentials.py::test_salted_password_appears_in_no_log_and_no_text",
    ),
    # SASL log-ins
    "a SCRAM proof is not compared": Mutant(
        file="daemon/kafka/login/sasl_scram.py",
        text="if not (proves and challenge.candidate.is_known):",
        becomes="if not challenge.candidate.is_known:",
        found_by="tests/daemon/kafka/login/test_sasl_scram.py::test_wrong_final_message_fails",
    ),
    "a client that knows the keys of a made-up SCRAM credential logs in": Mutant(
        file="daemon/kafka/login/sasl_scram.py",
        text="if not (proves and challenge.candidate.is_known):",
        becomes="if not proves:",
        found_by="tests/daemon/kafka/login/test_login_credentials.py::test_nobody_logs_in_with_a_made_up_credential",
    ),
    "a recorded SCRAM log-in can be repeated": Mutant(
        file="daemon/kafka/login/sasl_scram.py",
        text='        nonce = match["nonce"] + self._nonce\n',
        becomes='        nonce = match["nonce"]\n',
        found_by="tests/daemon/kafka/login/test_sasl_scram.py::test_proof_of_another_login_fails",
    ),
    "one user logs in as another with SCRAM": Mutant(
        file="daemon/kafka/login/sasl_scram.py",
        text="_decode_name(authorization_id) != user",
        becomes="not authorization_id",
        found_by="tests/daemon/kafka/login/test_sasl_scram.py::test_unsupported_request_is_refused_by_name",
    ),
    "a SCRAM challenge reveals whether the user exists": Mutant(
        file="daemon/kafka/login/login_credentials.py",
        text='b"salt of " + login',
        becomes='b"salt of "',
        found_by="tests/daemon/kafka/login/test_login_credentials.py::test_unknown_users_are_challenged_like_known_ones",
    ),
    "credentials are used before they are loaded": Mutant(
        file="daemon/kafka/listener.py",
        text="            await credentials.wait_until_loaded()\n",
        found_by="tests/daemon/kafka/test_listener_sasl.py::test_scram_log_in_waits_until_the_credentials_are_loaded",
    ),
    "a connection changes its principal": Mutant(
        file="daemon/kafka/login/authentication.py",
        text="if self._principal not in (None, principal):",
        becomes="if self._principal == principal + principal:",
        found_by="tests/daemon/kafka/login/test_authentication.py::test_reauthentication_requires_the_same_user",
    ),
    "requests are served after the end of a session": Mutant(
        file="daemon/kafka/listener.py",
        text="            self._sasl.check_session(self._listener.clock())\n",
        becomes="            self._sasl.check_session(0)\n",
        found_by="tests/daemon/kafka/test_listener_sasl.py::test_request_after_the_session_closes_the_connection",
    ),
    "the time of a refusal reveals which ids of tokens exist": Mutant(
        file="config/tokens.py",
        text="        digest = _NO_DIGEST if entry is None else entry.digest\n",
        becomes=("        if not entry:\n            return None\n        digest = entry.digest\n"),
        found_by="tests/config/test_tokens.py::test_unknown_id_costs_as_much_as_a_known",
    ),
    # Names of certificates
    "special characters of a certificate's name are not escaped": Mutant(
        file="acl/text/distinguished_names.py",
        text="    escaped = _SPECIAL.sub(",
        becomes="    escaped = text or _SPECIAL.sub(",
        found_by="tests/tls/test_distinguished_name.py::test_parts_are_reversed_and_escaped",
    ),
    "a mapping rule may match a part of a name": Mutant(
        file="config/principals/rules.py",
        text="if pattern.fullmatch(name) is None:",
        becomes="if pattern.search(name) is None:",
        found_by="tests/config/principals/test_mapping.py::test_recorded_rules_give_kafkas_principals",
    ),
    "a name that no mapping rule matches is its own principal": Mutant(
        file="config/principals/mapping.py",
        text='        raise PrincipalMappingError(\n            f"no rule matches',
        becomes=('        return distinguished_name or str(\n            f"no rule matches'),
        found_by="tests/config/principals/test_mapping.py::test_name_that_no_rule_matches_has_no_principal",
    ),
    "a mapping rule is applied to a name that Java may treat differently": Mutant(
        file="config/principals/rules.py",
        text="        if (construct := self.translation.find_doubt(name)) is not None:",
        becomes="        if (construct := self.translation.find_doubt('')) is not None:",
        found_by="tests/config/principals/test_mapping.py::test_name_for_which_javas_answer_is_unknown_has_no_principal",
    ),
    "mapping rules are matched by an engine that backtracks": Mutant(
        file="config/java_regex/translation.py",
        text="    return Translation(compiled,",
        becomes="    return Translation(re.compile(text.replace('\\\\z', '\\\\Z')),",
        found_by="tests/config/java_regex/test_translation.py::test_patterns_are_matched_by_re2",
    ),
}
