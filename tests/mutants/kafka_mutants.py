"""Mutants of the Kafka listeners: log-ins, rights, forwarding, and the cost of requests."""

from __future__ import annotations

from typing import Final

from tests.mutants.mutant import Mutant

KAFKA_MUTANTS: Final = (
    Mutant(
        name="a null host of a creation is read as an empty one",
        file="protocol/kafka/acl_types.py",
        text="            if tags or not (name_size and principal_size and host_size):\n",
        becomes="            if tags:\n",
        found_by="tests/protocol/kafka/test_acl_requests.py::test_null_host_of_a_creation_is_rejected",
    ),
    Mutant(
        name="items before a malformed one are freed at once",
        file="protocol/kafka/arrays.py",
        text="            yield from free(items)\n",
        found_by="tests/protocol/kafka/test_codec.py::test_items_before_an_invalid_one_are_freed_in_steps",
    ),
    Mutant(
        name="the requests of one connection are answered concurrently",
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
    Mutant(
        name="clients are served before their log-in",
        file="daemon/kafka/listener.py",
        text="principal = self._sasl.principal\n                if principal is None:",
        becomes=(
            'principal = self._sasl.principal or "User:ANONYMOUS"\n'
            "                if principal is None:"
        ),
        found_by="tests/daemon/kafka/test_listener_sasl.py::test_request_out_of_turn_closes_the_connection",
    ),
    Mutant(
        name="the items of nested arrays are read in one step",
        file="protocol/kafka/arrays.py",
        text="        if ends_step():\n",
        becomes="        if ends_step() and not items:\n",
        found_by="tests/protocol/kafka/test_codec.py::test_nested_arrays_are_read_and_written_in_steps",
    ),
    Mutant(
        name="each array of a request may have the maximum of items",
        file="protocol/kafka/body_reader.py",
        text="        self._items_left -= count\n",
        found_by="tests/protocol/kafka/test_codec.py::test_item_limit_includes_nested_arrays",
    ),
    Mutant(
        name="clients may send requests of any size before their log-in",
        file="daemon/kafka/listener.py",
        text="LOGIN_BYTES_MAX if listener.sasl is not None else listener.request_bytes_max",
        becomes="listener.request_bytes_max",
        found_by="tests/daemon/kafka/test_listener_sasl.py::test_requests_are_limited_to_4_kib_before_the_log_in",
    ),
    Mutant(
        name="a password is not compared",
        file="daemon/kafka/login/sasl_plain.py",
        text="if not compare_digest(expected, password_digest(password)):",
        becomes="if user not in users.digests:",
        found_by="tests/daemon/kafka/login/test_sasl_plain.py::test_other_tokens_are_rejected",
    ),
    Mutant(
        name="an unknown user costs less work than a known one",
        file="daemon/kafka/login/sasl_plain.py",
        text="    if not compare_digest(expected, password_digest(password)):",
        becomes=(
            "    if user not in users.digests or not compare_digest(expected, "
            "password_digest(password)):"
        ),
        found_by="tests/daemon/kafka/login/test_sasl_plain.py::test_unknown_user_costs_the_work_of_a_known_one",
    ),
    Mutant(
        name="a password is compared by its prefix",
        file="daemon/kafka/login/sasl_plain.py",
        text="if not compare_digest(expected, password_digest(password)):",
        becomes='if not users.passwords.get(user, "?").startswith(password):',
        found_by="tests/daemon/kafka/login/test_sasl_plain.py::test_other_tokens_are_rejected",
    ),
    Mutant(
        name="one user logs in as another",
        file="daemon/kafka/login/sasl_plain.py",
        text='if authorization_id not in ("", user):',
        becomes='if authorization_id == "":\n        return user\n    if authorization_id is None:',
        found_by="tests/daemon/kafka/login/test_sasl_plain.py::test_other_tokens_are_rejected",
    ),
    Mutant(
        name="all errors have texts, however many there are",
        file="protocol/kafka/acls.py",
        text="if self._bytes_left >= 0:",
        becomes="if self._bytes_left is not None:",
        found_by="tests/protocol/kafka/test_acl_responses.py::test_total_size_of_error_texts_is_limited",
    ),
    Mutant(
        name="a refused request gets as many results as it announces items",
        file="protocol/kafka/body_reader.py",
        text="if count * item_bytes_min > self.end - self.position:",
        becomes="if count > self.end - self.position:",
        found_by="tests/daemon/kafka/test_acls.py::test_refused_request_gets_no_answer_many_times_its_size",
    ),
    Mutant(
        name="ACLs are created without ALTER",
        file="daemon/kafka/dispatch.py",
        text="_Handler(acls.create, Operation.ALTER)",
        becomes="_Handler(acls.create, Operation.DESCRIBE)",
        found_by="tests/daemon/kafka/test_acls.py::test_cluster_describe_and_alter_are_required",
    ),
    Mutant(
        name="ACLs are deleted without any right",
        file="daemon/kafka/dispatch.py",
        text="_Handler(acls.delete, Operation.ALTER)",
        becomes="_Handler(acls.delete)",
        found_by="tests/daemon/kafka/test_acls.py::test_caller_without_the_right_changes_and_sees_nothing",
    ),
    Mutant(
        name="ACLs are described without DESCRIBE",
        file="daemon/kafka/dispatch.py",
        text="_Handler(acls.describe, Operation.DESCRIBE)",
        becomes="_Handler(acls.describe)",
        found_by="tests/daemon/kafka/test_acls.py::test_caller_without_the_right_changes_and_sees_nothing",
    ),
    Mutant(
        name="a controller's listener serves topics and groups",
        file="protocol/kafka/api.py",
        text="if (api.is_on_controllers if is_controller else api.is_on_brokers)",
        becomes="if is_controller or api.is_on_brokers",
        found_by="tests/protocol/kafka/test_api.py::test_each_kind_of_listener_serves_kafkas_apis",
    ),
    Mutant(
        name="an Envelope is opened without CLUSTER_ACTION",
        file="daemon/kafka/envelope.py",
        text="if not self._rights.may(context, Operation.CLUSTER_ACTION):",
        becomes="if not self:",
        found_by="tests/daemon/kafka/test_envelope.py::test_cluster_action_is_checked_before_decoding",
    ),
    Mutant(
        name="an Envelope may contain a version that Kafka 4 dropped",
        file="protocol/kafka/envelope.py",
        text="if (request.api_key, request.api_version) in _DROPPED_VERSIONS:",
        becomes="if not request.api_key:",
        found_by=(
            "tests/protocol/kafka/test_envelope.py"
            "::test_unknown_inner_version_gives_unsupported_version"
        ),
    ),
    Mutant(
        name="an unknown API in an Envelope is one that cannot be forwarded",
        file="protocol/kafka/envelope.py",
        text="if api_key in _KAFKAS_API_KEYS - _FORWARDABLE_KEYS:",
        becomes="if api_key not in _FORWARDABLE_KEYS:",
        found_by=(
            "tests/protocol/kafka/test_envelope.py"
            "::test_unknown_inner_api_gives_unsupported_version"
        ),
    ),
    Mutant(
        name="a forwarded request counts as an Envelope",
        file="daemon/kafka/envelope.py",
        text="name = APIS[forwarded.request.api_key].name",
        becomes="name = APIS[ApiKey.ENVELOPE].name",
        found_by="tests/daemon/kafka/test_envelope.py::test_forwarded_request_waits_in_purgatory",
    ),
    Mutant(
        name="a forwarded request uses the forwarder's rights",
        file="daemon/kafka/envelope.py",
        text="            principal=forwarded.principal,\n",
        found_by="tests/daemon/kafka/test_envelope.py::test_inner_principals_rights_count",
    ),
    Mutant(
        name="all topics are listed without DESCRIBE",
        file="daemon/kafka/topics.py",
        text="if is_described:",
        becomes="if topic:",
        found_by="tests/daemon/kafka/test_topics.py::test_list_of_all_topics_omits_those_without_describe",
    ),
    Mutant(
        name="authorized operations are returned without DESCRIBE",
        file="daemon/kafka/permissions.py",
        text="bit_field(allowed) if Operation.DESCRIBE in allowed else 0",
        becomes="bit_field(allowed)",
        found_by="tests/daemon/kafka/test_cluster.py::test_cluster_operations_are_the_authorized_ones",
    ),
    Mutant(
        name="a client that may alter configs can become a super user",
        file="daemon/kafka/config_change.py",
        text="if guarded and not self._is_super_user():",
        becomes="if guarded and not self:",
        found_by="tests/daemon/kafka/test_guarded_configs.py::test_only_a_super_user_may_alter_guarded_keys",
    ),
    Mutant(
        name="the parts of a response are kept until all are sent",
        file="protocol/kafka/chunked_output.py",
        text="        if len(self._last) >= CHUNK_BYTES:\n",
        becomes="        if part:\n",
        found_by="tests/protocol/kafka/test_chunked_output.py::test_chunks_contain_everything_in_order",
    ),
    Mutant(
        name="a resource is described as often as it is named",
        file="daemon/kafka/config_descriptions.py",
        text="        known = wanted.get((kind, name if node_id is None else node_id))\n",
        becomes="        node_id, known = number, None\n",
        found_by="tests/daemon/kafka/test_describe_configs.py::test_repeats_do_not_enlarge_the_answer",
    ),
    Mutant(
        name="a Kafka request of any size is read",
        file="protocol/framing.py",
        text="if not 0 <= size <= bytes_max:",
        becomes="if size < 0:",
        found_by="tests/protocol/test_framing.py::test_impossible_size_is_rejected_at_once",
    ),
    Mutant(
        name="failed log-ins keep their connections until they are answered",
        file="daemon/kafka/listener.py",
        text="            await trio.sleep(self._listener.failed_login_delay_s)\n",
        becomes=(
            "            self._connection.enter(Phase.ANSWERING)\n"
            "            await trio.sleep(self._listener.failed_login_delay_s)\n"
        ),
        found_by="tests/daemon/kafka/test_listener_limits.py::test_failed_log_in_gives_way_to_newcomers",
    ),
    Mutant(
        name="SCRAM credentials are changed with DESCRIBE",
        file="daemon/kafka/dispatch.py",
        text="_Handler(scram.alter, Operation.ALTER)",
        becomes="_Handler(scram.alter, Operation.DESCRIBE)",
        found_by="tests/daemon/kafka/test_scram_credentials.py::test_altering_requires_alter_on_the_cluster",
    ),
    Mutant(
        name="SCRAM users are listed without DESCRIBE",
        file="daemon/kafka/dispatch.py",
        text="scram.describe, Operation.DESCRIBE, UNEXPLAINED",
        becomes="scram.describe",
        found_by="tests/daemon/kafka/test_scram_credentials.py::test_describing_requires_describe_on_the_cluster",
    ),
    Mutant(
        name="a request may change a user twice",
        file="daemon/kafka/credential_plan.py",
        text="elif not isinstance(before, ApiError):",
        becomes="elif not before:",
        found_by="tests/daemon/kafka/test_scram_credentials.py::test_user_that_a_request_names_twice_is_not_changed",
    ),
    Mutant(
        name="few iterations are accepted",
        file="daemon/kafka/credential_plan.py",
        text="if asked.iterations < ITERATIONS_MIN:",
        becomes="if asked.iterations < 0:",
        found_by="tests/daemon/kafka/test_scram_credentials.py::test_bad_item_is_refused_with_kafkas_text_and_others_succeed",
    ),
    Mutant(
        name="an old log gets SCRAM credentials",
        file="daemon/kafka/credential_plan.py",
        text="        return _UNSUPPORTED\n",
        becomes="        pass\n",
        found_by="tests/daemon/kafka/test_scram_credentials.py::test_log_below_metadata_version_3_5_gets_no_credentials",
    ),
    Mutant(
        name="the repr of a request contains its body",
        file="protocol/kafka/server_connection.py",
        text="version={self.api_version})",
        becomes="version={self.api_version}, {self.body!r})",
        found_by="tests/daemon/kafka/test_scram_credentials.py::test_salted_password_appears_in_no_log_and_no_text",
    ),
)
