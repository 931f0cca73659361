"""Mutants of the ways in: log-ins, rights, forwarding, settings, and what a peer may cost."""

from __future__ import annotations

from typing import Final

from tests.mutants.mutant import Mutant

SURFACE_MUTANTS: Final = (
    Mutant(
        name="items before a malformed one are freed at once",
        file="protocol/kafka/body_reader.py",
        text="                yield from free(items)\n",
        becomes="",
        found_by=(
            "tests/protocol/kafka/test_body_reader.py"
            "::test_items_before_a_malformed_one_are_freed_in_steps"
        ),
    ),
    Mutant(
        name="a question of many lookups counts as one in a turn of the stream",
        file="daemon/decisions/stream_server.py",
        text="        return 1 + lookups // LOOKUPS_PER_QUESTION\n",
        becomes="        return 1\n",
        found_by=(
            "tests/daemon/decisions/test_stream_server.py"
            "::test_questions_of_many_lookups_leave_others_more_turns"
        ),
    ),
    Mutant(
        name="an evaluation of many lookups counts as one in a turn",
        file="daemon/decisions/authzen.py",
        text="cost = _EVALUATION_BYTES * weight + len(text)",
        becomes="cost = _EVALUATION_BYTES + len(text)",
        found_by=(
            "tests/daemon/decisions/test_authzen.py"
            "::test_a_long_request_yields_and_keeps_its_snapshot"
        ),
    ),
    Mutant(
        name="the requests of one connection are answered side by side",
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
        found_by=(
            "tests/daemon/kafka/test_listener.py"
            "::test_pipelined_requests_are_answered_in_order_one_at_a_time"
        ),
    ),
    Mutant(
        name="a server does not wait for the gate",
        file="daemon/lifespan.py",
        text="    await gate.wait_until_open(name)\n",
        becomes="",
        found_by="tests/end_to_end/test_early_start.py::test_every_other_endpoint_refuses_connections",
    ),
    Mutant(
        name="who has not logged in is served",
        file="daemon/kafka/listener.py",
        text="principal = self._sasl.principal\n                if principal is None:",
        becomes=(
            'principal = self._sasl.principal or "User:ANONYMOUS"\n'
            "                if principal is None:"
        ),
        found_by=(
            "tests/daemon/kafka/test_listener_sasl.py::test_what_comes_before_its_turn_closes"
        ),
    ),
    Mutant(
        name="the items of nested arrays are read in one step",
        file="protocol/kafka/message_codec.py",
        text="        if reader.ends_step():\n",
        becomes="        if reader.ends_step() and isinstance(field.item, _Codec):\n",
        found_by=(
            "tests/protocol/kafka/test_message_codec.py"
            "::test_nested_arrays_are_read_checked_and_written_in_steps"
        ),
    ),
    Mutant(
        name="each array of a request may have as many items as the whole",
        file="protocol/kafka/body_reader.py",
        text="        self._items_left -= count\n",
        becomes="",
        found_by=(
            "tests/protocol/kafka/test_message_codec.py"
            "::test_all_items_of_a_message_count_towards_its_bound"
        ),
    ),
    Mutant(
        name="a stranger may send requests of any size",
        file="daemon/kafka/listener.py",
        text="LOGIN_BYTES_MAX if listener.users is not None else listener.request_bytes_max",
        becomes="listener.request_bytes_max",
        found_by="tests/daemon/kafka/test_listener_sasl.py::test_strangers_send_small_requests",
    ),
    Mutant(
        name="a password is not compared",
        file="daemon/kafka/sasl_plain.py",
        text="if not compare_digest(expected, password_digest(password)):",
        becomes="if user not in users.digests:",
        found_by="tests/daemon/kafka/test_sasl_plain.py::test_anything_else_does_not",
    ),
    Mutant(
        name="an unknown user costs less work than a known one",
        file="daemon/kafka/sasl_plain.py",
        text="    if not compare_digest(expected, password_digest(password)):",
        becomes=(
            "    if user not in users.digests or not compare_digest(expected, "
            "password_digest(password)):"
        ),
        found_by=(
            "tests/daemon/kafka/test_sasl_plain.py::test_an_unknown_user_costs_the_work_of_a_known_one"
        ),
    ),
    Mutant(
        name="an override without = is shown",
        file="config/properties.py",
        text='found = "a text without a key" if equals',
        becomes="found = override if equals is not None",
        found_by="tests/config/test_properties.py::test_a_malformed_override_is_refused",
    ),
    Mutant(
        name="an audit line keeps what reorders its text",
        file="daemon/audit/format.py",
        text='frozenset(("Cc", "Cf", "Zl", "Zp"))',
        becomes='frozenset(("Cc", "Zl", "Zp"))',
        found_by="tests/daemon/audit/test_format.py::test_no_character_misleads_a_reader",
    ),
    Mutant(
        name="a password is compared by its beginning",
        file="daemon/kafka/sasl_plain.py",
        text="if not compare_digest(expected, password_digest(password)):",
        becomes='if not users.passwords.get(user, "?").startswith(password):',
        found_by="tests/daemon/kafka/test_sasl_plain.py::test_anything_else_does_not",
    ),
    Mutant(
        name="one user logs in as another",
        file="daemon/kafka/sasl_plain.py",
        text='if authorization_id not in ("", user):',
        becomes='if authorization_id == "":\n        return user\n    if authorization_id is None:',
        found_by="tests/daemon/kafka/test_sasl_plain.py::test_anything_else_does_not",
    ),
    Mutant(
        name="errors have texts however many there are",
        file="protocol/kafka/acl_responses.py",
        text="if self._bytes_left < 0:",
        becomes="if self._bytes_left is None:",
        found_by=(
            "tests/protocol/kafka/test_acl_responses.py"
            "::test_the_texts_of_errors_do_not_grow_an_answer_without_bound"
        ),
    ),
    Mutant(
        name="a request is owed as many results as it announces items",
        file="protocol/kafka/acl_requests.py",
        text="if count * each > bytes_left:",
        becomes="if count > bytes_left:",
        found_by=(
            "tests/daemon/kafka/test_acls.py::"
            "test_without_the_right_a_large_request_earns_no_answer_many_times_its_size"
        ),
    ),
    Mutant(
        name="ACLs are created without ALTER",
        file="daemon/kafka/acls.py",
        text="Operation.ALTER):\n            return await _refuse_creations(",
        becomes="Operation.DESCRIBE):\n            return await _refuse_creations(",
        found_by=(
            "tests/daemon/kafka/test_acls.py::test_the_rights_are_describe_and_alter_of_the_cluster"
        ),
    ),
    Mutant(
        name="ACLs are deleted without any right",
        file="daemon/kafka/acls.py",
        text=(
            "if not self._rights.may(context, Operation.ALTER):\n"
            "            return await _refuse_deletions("
        ),
        becomes="if not self:\n            return await _refuse_deletions(",
        found_by=(
            "tests/daemon/kafka/test_acls.py::test_without_the_right_nothing_is_done_or_told"
        ),
    ),
    Mutant(
        name="ACLs are told without DESCRIBE",
        file="daemon/kafka/acls.py",
        text="if not self._rights.may(context, Operation.DESCRIBE):",
        becomes="if not self:",
        found_by=(
            "tests/daemon/kafka/test_acls.py::test_without_the_right_nothing_is_done_or_told"
        ),
    ),
    Mutant(
        name="a controller's listener tells of topics and groups",
        file="protocol/kafka/api.py",
        text="if (api.is_on_controllers if is_controller else api.is_on_brokers)",
        becomes="if is_controller or api.is_on_brokers",
        found_by="tests/protocol/kafka/test_api.py::test_each_kind_of_listener_serves_what_kafkas_does",
    ),
    Mutant(
        name="an Envelope is opened without CLUSTER_ACTION",
        file="daemon/kafka/envelope.py",
        text="if not self._rights.may(context, Operation.CLUSTER_ACTION):",
        becomes="if not self:",
        found_by=(
            "tests/daemon/kafka/test_envelope.py"
            "::test_cluster_action_is_checked_before_anything_is_decoded"
        ),
    ),
    Mutant(
        name="what is forwarded is judged by the forwarder's rights",
        file="daemon/kafka/envelope.py",
        text="            principal=forwarded.principal,\n",
        becomes="",
        found_by=("tests/daemon/kafka/test_envelope.py::test_the_inner_principals_rights_count"),
    ),
    Mutant(
        name="all topics are told of without DESCRIBE",
        file="daemon/kafka/topics.py",
        text="if is_described:",
        becomes="if topic:",
        found_by=(
            "tests/daemon/kafka/test_topics.py::test_all_topics_leave_out_those_without_describe"
        ),
    ),
    Mutant(
        name="authorized operations are told without DESCRIBE",
        file="daemon/kafka/permissions.py",
        text="bit_field(allowed) if Operation.DESCRIBE in allowed else 0",
        becomes="bit_field(allowed)",
        found_by=(
            "tests/daemon/kafka/test_cluster.py"
            "::test_the_clusters_operations_are_those_that_are_authorized"
        ),
    ),
    Mutant(
        name="whoever may alter configs makes himself a super user",
        file="daemon/kafka/config_plan.py",
        text="if guarded and not self._is_super_user:",
        becomes="if guarded and not self:",
        found_by=(
            "tests/daemon/kafka/test_configs.py::test_only_a_super_user_says_who_may_do_everything"
        ),
    ),
    Mutant(
        name="whoever may alter configs reconfigures a plugged-in authorizer",
        file="config/dynamic.py",
        text="return name in GUARDED or name in plugged\n",
        becomes="return name in GUARDED\n",
        found_by=(
            "tests/daemon/kafka/test_configs.py"
            "::test_a_plug_in_s_own_key_is_for_super_users_and_until_the_file_is_read"
        ),
    ),
    Mutant(
        name="anyone has long guarded values parsed",
        file="config/alterations.py",
        text="        if name in forbidden:\n",
        becomes="        if name in forbidden and not value:\n",
        found_by=(
            "tests/daemon/kafka/test_configs.py"
            "::test_guarded_values_are_parsed_for_super_users_alone"
        ),
    ),
    Mutant(
        name="a client sets keys that nobody reconfigures",
        file="config/dynamic.py",
        text="return name in plugged if key is None else key.reloadable\n",
        becomes="return key is None or key.reloadable\n",
        found_by="tests/config/test_alterations.py::test_what_may_not_be_set_is_refused",
    ),
    Mutant(
        name="a client sets a limit that keeps everyone out",
        file="config/dynamic.py",
        text="key.wire_minimum is not None and parsed < key.wire_minimum",
        becomes="key.wire_minimum is not None and parsed < 1",
        found_by=(
            "tests/config/test_alterations.py::test_no_client_sets_a_limit_that_keeps_everyone_out"
        ),
    ),
    Mutant(
        name="the sum of bounds takes requests to grow less than they do",
        file="config/bounds.py",
        text="KAFKA_GROWTH: Final = 48\n",
        becomes="KAFKA_GROWTH: Final = 24\n",
        found_by=(
            "tests/daemon/test_memory_growth.py"
            "::test_a_kafka_request_grows_no_more_than_its_bound_says"
        ),
    ),
    Mutant(
        name="an answer is kept in parts until it is sent",
        file="protocol/kafka/chunked_output.py",
        text="        if len(self._last) >= CHUNK_BYTES:\n",
        becomes="        if part:\n",
        found_by=(
            "tests/daemon/test_memory_growth.py"
            "::test_a_kafka_request_grows_no_more_than_its_bound_says"
        ),
    ),
    Mutant(
        name="a resource is described as often as it is named",
        file="daemon/kafka/config_descriptions.py",
        text="        known = wanted.get((kind, name if node_id is None else node_id))\n",
        becomes="        node_id, known = number, None\n",
        found_by=("tests/daemon/kafka/test_configs.py::test_repeats_earn_no_larger_answer"),
    ),
    Mutant(
        name="the alterations of a request are checked in one step",
        file="config/alterations.py",
        text=(
            "            nulls.append(alteration.name)\n"
            "        if number % _ALTERATIONS_PER_STEP == 0:\n"
        ),
        becomes=(
            "            nulls.append(alteration.name)\n        if number == len(alterations):\n"
        ),
        found_by="tests/config/test_alterations.py::test_many_alterations_are_checked_in_steps",
    ),
    Mutant(
        name="the log says who is a super user",
        file="config/dynamic.py",
        text="        if is_guarded(name, self.plugged):\n",
        becomes="        if is_guarded(name, self.plugged) and name in self.since_reload:\n",
        found_by="tests/config/test_dynamic.py::test_who_may_do_everything_is_not_for_the_log_to_say",
    ),
    Mutant(
        name="a page of another site may ask",
        file="daemon/http/server.py",
        text="hosts = server.allowed_hosts",
        becomes="hosts = None",
        found_by="tests/end_to_end/test_serve.py::test_what_a_browser_could_send_is_refused",
    ),
    Mutant(
        name="who shows no token is trusted though there is a tokens file",
        file="daemon/decisions/callers.py",
        text="        if token is None:\n            return None\n",
        becomes="        if token is None:\n            return Trusted()\n",
        found_by=(
            "tests/daemon/decisions/test_callers.py::test_with_a_tokens_file_nobody_is_trusted_without_a_token"
        ),
    ),
    Mutant(
        name="the last value of a repeated JSON key counts",
        file="protocol/decisions/json_keys.py",
        text="        if key in keys:\n",
        becomes="        if key in keys and not keys:\n",
        found_by="tests/protocol/decisions/test_json_keys.py::test_a_text_is_rejected_exactly_if_a_key_is_repeated",
    ),
    Mutant(
        name="an escaped colon stands for a lost key's",
        file="protocol/decisions/json_keys.py",
        text='_ESCAPED_COLON: Final = b"\\\\u003"',
        becomes='_ESCAPED_COLON: Final = b"\\\\u003x"',
        found_by="tests/protocol/decisions/test_json_keys.py::test_a_repeated_key_is_found",
    ),
    Mutant(
        name="repeated keys around many evaluations are not looked for",
        file="protocol/decisions/authzen.py",
        text=(
            '            check_keys_around("evaluations", len(bytes(request.evaluations)), body)\n'
        ),
        becomes="            pass\n",
        found_by="tests/protocol/decisions/test_authzen.py::test_a_repeated_key_is_rejected",
    ),
    Mutant(
        name="evaluations beyond the bound are passed over",
        file="protocol/decisions/authzen.py",
        text="    forbid_unknown_fields=True,\n",
        becomes="",
        found_by="tests/protocol/decisions/test_authzen.py::test_evaluations_are_bounded",
    ),
    Mutant(
        name="a slice of evaluations may have any length",
        file="daemon/decisions/authzen.py",
        text="cost = _EVALUATION_BYTES * weight + len(text)",
        becomes="cost = _EVALUATION_BYTES * weight",
        found_by=(
            "tests/daemon/decisions/test_authzen.py"
            "::test_a_long_request_yields_by_the_length_of_its_evaluations"
        ),
    ),
    Mutant(
        name="a key may be half a surrogate pair",
        file="protocol/decisions/json_keys.py",
        text="json.loads(text.decode(), ",
        becomes="json.loads(text, ",
        found_by="tests/protocol/decisions/test_json_keys.py::test_a_key_that_is_not_utf8_is_rejected",
    ),
    Mutant(
        name="fractions in a question are computed",
        file="protocol/decisions/json_keys.py",
        text="Decoder(float_hook=len)",
        becomes="Decoder()",
        found_by="tests/protocol/decisions/test_json_keys.py::test_fractions_are_not_computed",
    ),
    Mutant(
        name="any number of chunks is read in one go",
        file="protocol/http/connection.py",
        text="if count == _CHUNKS_AT_ONCE_MAX:",
        becomes="if count < 0:",
        found_by="tests/protocol/http/test_connection.py::test_many_chunks_are_read_with_pauses",
    ),
    Mutant(
        name="a chunk's extension holds control characters",
        file="protocol/http/connection.py",
        text="(?:;[\\t\\x20-\\x7e\\x80-\\xff]{0,128})?",
        becomes="(?:;[^\\r\\n]{0,128})?",
        found_by="tests/protocol/http/test_connection.py::test_a_malformed_chunk_is_refused",
    ),
    Mutant(
        name="lists of metrics follow each other in one turn",
        file="daemon/telemetry/admin.py",
        text="await trio.lowlevel.checkpoint()  # to list all metrics takes a millisecond",
        becomes="pass",
        found_by=(
            "tests/daemon/telemetry/test_admin.py"
            "::test_others_have_their_turn_between_two_lists_of_metrics"
        ),
    ),
    Mutant(
        name="operations of AuthZEN match in any case of Unicode",
        file="protocol/decisions/authzen.py",
        text="vocabulary.operations.get(ascii_upper(action.name))",
        becomes="vocabulary.operations.get(action.name.upper())",
        found_by="tests/protocol/decisions/test_authzen.py::test_only_ascii_letters_match_in_any_case",
    ),
    Mutant(
        name="the type of OPA's principal may hold a colon",
        file="protocol/decisions/opa.py",
        text='    if ":" in principal.principal_type:\n',
        becomes='    if ":" in principal.name and not principal.name:\n',
        found_by="tests/protocol/decisions/test_opa.py::test_a_colon_in_the_principal_s_type_is_rejected",
    ),
    Mutant(
        name="a plug-in may spell a host as it likes",
        file="actors/authorizer.py",
        text="        if self.host is not None and host_address(self.host) != self.host:\n",
        becomes="        if self.host is not None and not self.host:\n",
        found_by="tests/actors/test_authorizer.py::test_a_context_with_another_host_is_rejected",
    ),
    Mutant(
        name="the secret of a token is not compared",
        file="config/tokens.py",
        text="return entry if is_proven else None",
        becomes="return entry",
        found_by="tests/config/test_tokens.py::test_what_is_no_token_proves_nobody",
    ),
    Mutant(
        name="a token that is withdrawn goes on counting",
        file="daemon/decisions/callers.py",
        text="if self._token not in self._callers.tokens:",
        becomes="if self._token is None:",
        found_by=(
            "tests/daemon/decisions/test_callers.py::test_a_token_that_is_withdrawn_is_worth_nothing"
        ),
    ),
    Mutant(
        name="who has a token asks about others without CLUSTER_ACTION",
        file="daemon/decisions/callers.py",
        text="if principal == self._token.principal:",
        becomes="if principal:",
        found_by=(
            "tests/daemon/decisions/test_callers.py"
            "::test_everybody_may_ask_about_itself_and_super_users_about_all"
        ),
    ),
    Mutant(
        name="what a browser may send without asking is answered",
        file="daemon/decisions/authzen.py",
        text="if not has_json_type(request):",
        becomes="if not request:",
        found_by="tests/end_to_end/test_serve.py::test_what_a_browser_could_send_is_refused",
    ),
    Mutant(
        name="a body that announces any length is read",
        file="protocol/http/connection.py",
        text="if head.length > limits.body_bytes_max:",
        becomes="if head.length > 2**40:",
        found_by=(
            "tests/protocol/http/test_connection.py::test_a_bad_request_is_refused_with_its_status"
        ),
    ),
    Mutant(
        name="trailers may hold anything",
        file="protocol/http/connection.py",
        text="        if not _TRAILERS.fullmatch(self._buffer, start, end):\n",
        becomes="        if not _TRAILERS:\n",
        found_by="tests/protocol/http/test_connection.py::test_malformed_trailers_are_refused",
    ),
    Mutant(
        name="a peer may send empty lines for ever",
        file="protocol/http/connection.py",
        text="            self._empty_lines += 1\n",
        becomes="",
        found_by="tests/protocol/http/test_connection.py::test_a_few_empty_lines_before_a_request_are_ignored",
    ),
    Mutant(
        name="a body in chunks may have any length",
        file="protocol/http/connection.py",
        text="if len(chunks) + size > self._limits.body_bytes_max:",
        becomes="if size > self._limits.body_bytes_max:",
        found_by="tests/protocol/http/test_connection.py::test_the_limits_are_what_they_say",
    ),
    Mutant(
        name="a Kafka request of any size is read",
        file="protocol/framing.py",
        text="if not 0 <= size <= bytes_max:",
        becomes="if size < 0:",
        found_by="tests/protocol/test_framing.py::test_a_size_that_cannot_be_ends_it",
    ),
    Mutant(
        name="connections have no bound",
        file="daemon/net/connection_server.py",
        text="if len(self._open) < limits.unreserved_max or self._evict():",
        becomes="if len(self._open) >= 0:",
        found_by=(
            "tests/daemon/kafka/test_listener_limits.py"
            "::test_connections_beyond_the_most_are_closed"
        ),
    ),
    Mutant(
        name="silent connections keep newcomers out",
        file="daemon/net/connection_server.py",
        text="limits.unreserved_max or self._evict():",
        becomes="limits.unreserved_max:",
        found_by="tests/daemon/net/test_connection_server.py::test_newcomer_takes_the_place_of_the_oldest_silent_connection",
    ),
    Mutant(
        name="strangers who do not read keep newcomers out",
        file="daemon/net/connection.py",
        text="self.is_confined and self.phase is Phase.SENDING",
        becomes="self.is_confined and self.phase is Phase.IDLE",
        found_by="tests/daemon/kafka/test_listener_limits.py::test_stranger_who_does_not_read_gives_way_to_newcomers",
    ),
    Mutant(
        name="failed log-ins keep their places until they are answered",
        file="daemon/kafka/listener.py",
        text="self._connection.enter(Phase.SENDING)  # it may give way",
        becomes="self._connection.enter(Phase.ANSWERING)  # it may give way",
        found_by="tests/daemon/kafka/test_listener_limits.py::test_failed_log_in_gives_way_to_newcomers",
    ),
    Mutant(
        name="a busy connection gives way to a newcomer",
        file="daemon/net/connection_server.py",
        text="(each for each in self._unestablished if each.is_waiting)",
        becomes="iter(self._open)",
        found_by="tests/daemon/net/test_connection_server.py::test_connection_whose_request_is_under_way_never_gives_way",
    ),
    Mutant(
        name="an idle connection gives way at once",
        file="daemon/net/connection_server.py",
        text="connection.since + least <= trio.current_time()",
        becomes="least > 0",
        found_by=(
            "tests/daemon/net/test_connection_server.py"
            "::test_established_connection_gives_way_only_when_idle_for_long"
        ),
    ),
    Mutant(
        name="requests extend the time to log in",
        file="daemon/net/connection_server.py",
        text="connection.accepted_at + limits.login_timeout_s",
        becomes="connection.since + limits.login_timeout_s",
        found_by="tests/daemon/kafka/test_listener_limits.py::test_requests_before_the_log_in_do_not_extend_its_time",
    ),
    Mutant(
        name="one address may have any number of connections",
        file="daemon/net/connection_server.py",
        text="self._by_address[address] >= limits.of_address(address)",
        becomes="self._by_address[address] < 0",
        found_by="tests/daemon/net/test_connection_server.py::test_one_address_has_no_more_connections_than_its_limit",
    ),
    Mutant(
        name="any user takes a place that is reserved for super users",
        file="daemon/net/connection_server.py",
        text="if not limits.reserved or may_use_reserve:",
        becomes="if limits:",
        found_by="tests/daemon/kafka/test_listener_limits.py::test_super_user_logs_in_though_all_connections_are_taken",
    ),
    Mutant(
        name="a fault of a connection ends the daemon",
        file="daemon/net/connection_server.py",
        text="        except Exception:\n",
        becomes="        except ValueError:\n",
        found_by="tests/daemon/net/test_connection_server.py::test_fault_of_any_kind_ends_its_own_connection_only",
    ),
    Mutant(
        name="an error of accept ends the daemon",
        file="daemon/net/accepting.py",
        text="except OSError as error:",
        becomes="except TimeoutError as error:",
        found_by="tests/daemon/net/test_connection_server.py::test_accept_that_fails_is_tried_again_and_logged_once",
    ),
    Mutant(
        name="half a log-in takes memory from others",
        file="daemon/net/connection.py",
        text="size = FREE_BYTES - bytes_left if self.is_confined else RECEIVE_BYTES",
        becomes="size = RECEIVE_BYTES",
        found_by="tests/daemon/test_overload.py::test_hello_of_more_than_its_limit_is_refused_and_takes_no_memory",
    ),
    Mutant(
        name="connections take the files of the log",
        file="daemon/net/fd_limit.py",
        text="max(most - OTHER_FILES_MIN, most // 4)",
        becomes="most",
        found_by="tests/daemon/net/test_fd_limit.py::test_connections_are_capped_by_too_low_a_hard_limit",
    ),
    Mutant(
        name="an answer outlives the ACLs that it was given by",
        file="daemon/decisions/answer_cache.py",
        text="if state.snapshot is not self._snapshot or",
        becomes="if",
        found_by="tests/daemon/decisions/test_answer_cache.py::test_a_change_of_acls_changes_the_next_answer",
    ),
    Mutant(
        name="an answer outlives the super users that it was given by",
        file="daemon/decisions/answer_cache.py",
        text=" or state.settings is not self._settings:",
        becomes=":",
        found_by=(
            "tests/daemon/decisions/test_answer_cache.py::test_a_change_of_settings_changes_the_next_answer"
        ),
    ),
    Mutant(
        name="a longer request answers later ones from its older state",
        file="daemon/decisions/answer_cache.py",
        text="kept is not None and kept[0] == generation",
        becomes="kept is not None",
        found_by=(
            "tests/daemon/decisions/test_answer_cache.py"
            "::test_a_request_that_began_earlier_leaves_nothing_to_later_ones"
        ),
    ),
    Mutant(
        name="evaluations with other defaults get each other's answers",
        file="daemon/decisions/authzen.py",
        text="defaults = request if has_defaults(request) else None",
        becomes="defaults = None",
        found_by=(
            "tests/daemon/decisions/test_answer_cache.py"
            "::test_an_evaluation_that_leans_on_defaults_is_not_remembered"
        ),
    ),
    Mutant(
        name="a decoder's own text reaches the caller",
        file="protocol/decisions/json_faults.py",
        text='return f"{_INVALID}: the body ends before the document does"',
        becomes="return text",
        found_by="tests/protocol/decisions/test_json_faults.py::test_no_text_of_the_decoder_is_passed_on",
    ),
    Mutant(
        name="an answer that allows carries a hint",
        file="protocol/decisions/authzen.py",
        text="hint = None if decision.allowed else describe_hint(question)",
        becomes="hint = describe_hint(question)",
        found_by=(
            "tests/protocol/decisions/test_authzen.py::test_only_a_denial_of_a_likely_mistake_carries_a_hint"
        ),
    ),
    Mutant(
        name="a closed port is retried until the time is up",
        file="kafka_client/client.py",
        text="if attempts >= _UNSERVED_MAX:",
        becomes="if attempts < 0:",
        found_by=(
            "tests/kafka_client/test_client.py"
            "::test_servers_that_serve_nobody_fail_within_two_seconds"
        ),
    ),
    Mutant(
        name="any listener that hangs up is taken for one that requires a log-in",
        file="kafka_client/connection.py",
        text="return int(answer.error_code) in (ErrorCode.NONE, ErrorCode.",
        becomes="return int(answer.error_code) in (ErrorCode.ILLEGAL_SASL_STATE, ErrorCode.",
        found_by=(
            "tests/kafka_client/test_client.py"
            "::test_a_listener_without_log_ins_is_not_taken_for_one_that_requires_them"
        ),
    ),
    Mutant(
        name="a reader that leaves changes the exit code",
        file="cli/standard_streams.py",
        text="            except BrokenPipeError:\n                self._is_lost = True\n",
        becomes="",
        found_by=("tests/cli/test_main.py::test_a_reader_that_leaves_changes_no_exit_code"),
    ),
    Mutant(
        name="explain passes over the configuration's super users",
        file="cli/explain.py",
        text='values.get(_SUPER_USERS, ""), origin)',
        becomes='"", origin)',
        found_by=("tests/cli/test_main.py::test_explain_decides_by_the_settings_that_it_names"),
    ),
)
