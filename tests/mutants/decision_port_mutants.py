"""Mutants of the decision ports: AuthZEN, OPA, the decision stream, and the HTTP server."""

from __future__ import annotations

from typing import Final

from tests.mutants.mutant import Mutant

DECISION_PORT_MUTANTS: Final = (
    Mutant(
        name="one caller's searches and questions about the past take all places",
        file="daemon/queries/admission.py",
        text="_has_place(caller, waiting, self.running, WAITING_MAX)",
        becomes="_has_place(None, waiting, self.running, WAITING_MAX)",
        found_by="tests/daemon/queries/test_admission.py::test_one_caller_cannot_take_all_places",
    ),
    Mutant(
        name="a caller that has had its turn gets the next one before others",
        file="daemon/queries/admission.py",
        text="                        self._waiting.move_to_end(caller)\n",
        becomes="                        pass\n",
        found_by="tests/daemon/queries/test_admission.py::test_callers_are_served_in_turn",
    ),
    Mutant(
        name="one caller's questions are all that is answered",
        file="daemon/queries/admission.py",
        text="if caller is not None and any(each.caller == caller for each in self.running):",
        becomes="if False:",
        found_by="tests/daemon/queries/test_admission.py::test_callers_are_served_in_turn",
    ),
    Mutant(
        name="slow readers of listings keep all others out",
        file="daemon/queries/process.py",
        text="            self._admission.finish(question)",
        becomes="            pass",
        found_by="tests/daemon/queries/test_process.py"
        "::test_slow_reader_of_a_listing_holds_up_nobody",
    ),
    Mutant(
        name="a listing that its client still reads is not counted",
        file="daemon/queries/process.py",
        text="if question.is_listing and is_wanted and not code:",
        becomes="if False:",
        found_by="tests/daemon/queries/test_process.py"
        "::test_slow_reader_of_a_listing_holds_up_nobody",
    ),
    Mutant(
        name="the lines of a listing may take any memory",
        file="daemon/queries/children.py",
        text="            if size > LINES_BYTES_MAX:\n",
        becomes="            if size > 100 * LINES_BYTES_MAX:\n",
        found_by="tests/daemon/queries/test_process.py::test_lines_of_a_listing_are_limited",
    ),
    Mutant(
        name="a listing that ends early looks whole",
        file="daemon/queries/client.py",
        text="            if self._is_complete:\n",
        becomes='            if self._is_complete:\n                return b""\n',
        found_by="tests/daemon/queries/test_process.py"
        "::test_listing_whose_child_is_killed_ends_with_an_error",
    ),
    Mutant(
        name="one caller has all listings",
        file="daemon/queries/admission.py",
        text="_has_place(caller, self._listings, [], LISTINGS_MAX)",
        becomes="_has_place(None, self._listings, [], LISTINGS_MAX)",
        found_by="tests/daemon/queries/test_admission.py"
        "::test_listing_that_is_read_holds_up_no_question",
    ),
    Mutant(
        name="a question is answered by a state before the one that its caller has seen",
        file="daemon/queries/admission.py",
        text="if question.offset <= offset:",
        becomes="if True:",
        found_by="tests/daemon/queries/test_process.py::test_question_waits_for_its_offset",
    ),
    Mutant(
        name="a child keeps the descriptors of the query process",
        file="daemon/queries/children.py",
        text="        os.closerange(after + 1, before)\n",
        becomes="        pass\n",
        found_by="tests/daemon/queries/test_process.py::test_child_keeps_nothing_of_its_parent",
    ),
    Mutant(
        name="a child outlives the query process",
        file="daemon/queries/children.py",
        text="    _prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)\n",
        becomes="",
        found_by="tests/daemon/queries/test_process.py::test_killed_query_process_is_replaced",
    ),
    Mutant(
        name="a query process without a daemon reads its closed socket for ever",
        file="daemon/queries/handover.py",
        text="""\
    if not data:
        raise EOFError
""",
        becomes="",
        found_by="tests/daemon/queries/test_process.py::test_process_ends_once_nobody_can_ask_it",
    ),
    Mutant(
        name="an explanation gives another answer than was decided and audited",
        file="daemon/decisions/http_surface.py",
        text="if answer.allowed[0] != allowed:",
        becomes="if False:",
        found_by="tests/daemon/queries/test_search_rights.py"
        "::test_explanation_gives_the_answer_that_was_audited",
    ),
    Mutant(
        name="an answer that came too late is given",
        file="daemon/decisions/http_surface.py",
        text="        if self._authorizer.has_expired(state):\n            found",
        becomes="        if False:\n            found",
        found_by="tests/daemon/queries/test_search_rights.py"
        "::test_answer_is_not_given_once_the_state_has_expired",
    ),
    Mutant(
        name="searches of all callers share their places",
        file="daemon/decisions/http_surface.py",
        text="question, caller=requester.principal, offset=offset",
        becomes="question, caller=None, offset=offset",
        found_by="tests/daemon/queries/test_search_rights.py::test_caller_of_a_question_is_told",
    ),
    Mutant(
        name="caches may keep a URL that a client has chosen",
        file="daemon/decisions/discovery.py",
        text="_CACHED if self._base_url else _NOT_CACHED",
        becomes="_CACHED",
        found_by="tests/daemon/decisions/test_discovery.py::test_no_cache_keeps_a_url_that_a_client_has_chosen",
    ),
    Mutant(
        name="a question is decided for the host of the one before it",
        file="daemon/decisions/stream_server.py",
        text="if host != last_host:",
        becomes="if last_host is None:",
        found_by="tests/daemon/decisions/test_stream_server.py::test_decision_depends_only_on_its_own_question",
    ),
    Mutant(
        name="the stream counts a question with many lookups like one with few",
        file="daemon/decisions/stream_server.py",
        text="        return 1 + lookups // LOOKUPS_PER_QUESTION\n",
        becomes="        return 1\n",
        found_by="tests/daemon/decisions/test_stream_server.py::test_questions_of_many_lookups_take_more_turns",
    ),
    Mutant(
        name="AuthZEN counts an evaluation with many lookups like one with few",
        file="daemon/decisions/authzen.py",
        text="_chunks(evaluations, _weigh(state, body_size))",
        becomes="_chunks(evaluations, 1)",
        found_by="tests/daemon/decisions/test_authzen.py::test_a_long_request_yields_and_keeps_its_snapshot",
    ),
    Mutant(
        name="a web page of another site may send requests",
        file="daemon/http/server.py",
        text="hosts, host = server.allowed_hosts, ",
        becomes="hosts, host = None, ",
        found_by="tests/end_to_end/test_serve.py::test_requests_of_other_sites_are_refused",
    ),
    Mutant(
        name="a caller gets an answer after a reload has taken its right",
        file="daemon/decisions/http_surface.py",
        text="        if version == self._callers.version:\n",
        becomes="        if version is not None:\n",
        found_by=(
            "tests/daemon/queries/test_search_rights.py"
            "::test_waiting_search_is_refused_once_the_right_is_gone"
        ),
    ),
    Mutant(
        name="a listing goes on after a reload has taken its caller's right",
        file="daemon/queries/listings.py",
        text="check()  # for each part, since a slow reader may take minutes",
        becomes="pass",
        found_by="tests/daemon/queries/test_acl_list.py::test_listing_ends_once_the_right_is_gone",
    ),
    Mutant(
        name="a frame of the stream is answered after a reload has taken its caller's right",
        file="daemon/decisions/stream_server.py",
        text="                self._check_rights(ask.questions)\n        except ForbiddenError:",
        becomes="        except ForbiddenError:",
        found_by=(
            "tests/daemon/decisions/test_stream_server_callers.py"
            "::test_frame_that_takes_turns_is_refused_once_the_right_is_gone"
        ),
    ),
    Mutant(
        name="callers without a token are trusted although there is a tokens file",
        file="daemon/decisions/callers.py",
        text="        if token is None:\n            return None if certified is None",
        becomes="        if token is None:\n            return Trusted() if certified is None",
        found_by="tests/daemon/decisions/test_callers.py::test_with_a_tokens_file_every_caller_needs_a_token",
    ),
    Mutant(
        name="a repeated JSON key is accepted",
        file="protocol/decisions/json_keys.py",
        text="        if key in keys:\n",
        becomes="        if key in keys and not keys:\n",
        found_by="tests/protocol/decisions/test_json_keys.py::test_text_is_rejected_exactly_if_a_key_is_repeated",
    ),
    Mutant(
        name="an escaped colon counts like the colon after a key",
        file="protocol/decisions/json_keys.py",
        text='_ESCAPED_COLON: Final = b"\\\\u003"',
        becomes='_ESCAPED_COLON: Final = b"\\\\u003x"',
        found_by="tests/protocol/decisions/test_json_keys.py::test_repeated_key_is_found",
    ),
    Mutant(
        name="a key next to the array of evaluations may be repeated",
        file="protocol/decisions/authzen.py",
        text=(
            '            check_keys_around("evaluations", len(bytes(request.evaluations)), body)\n'
        ),
        becomes="            pass\n",
        found_by="tests/protocol/decisions/test_authzen.py::test_repeated_key_is_rejected",
    ),
    Mutant(
        name="evaluations beyond the limit are ignored",
        file="protocol/decisions/authzen.py",
        text="    forbid_unknown_fields=True,\n",
        found_by="tests/protocol/decisions/test_authzen.py::test_number_of_evaluations_is_limited",
    ),
    Mutant(
        name="a slice of evaluations may have any length",
        file="daemon/decisions/authzen.py",
        text="left -= len(bytes(each)) // BYTES_PER_EVALUATION",
        becomes="pass",
        found_by="tests/daemon/decisions/test_authzen.py::test_a_long_request_yields_by_the_length_of_its_evaluations",
    ),
    Mutant(
        name="a key may be half a surrogate pair",
        file="protocol/decisions/json_keys.py",
        text="json.loads(text.decode(), ",
        becomes="json.loads(text, ",
        found_by="tests/protocol/decisions/test_json_keys.py::test_key_that_is_not_utf8_is_rejected",
    ),
    Mutant(
        name="fractions in a question are parsed as numbers",
        file="protocol/decisions/json_keys.py",
        text="Decoder(float_hook=len)",
        becomes="Decoder()",
        found_by="tests/protocol/decisions/test_json_keys.py::test_fractions_are_not_computed",
    ),
    Mutant(
        name="any number of chunks is read in one step",
        file="protocol/http/chunked_body.py",
        text="if count == _CHUNKS_AT_ONCE_MAX:",
        becomes="if count < 0:",
        found_by="tests/protocol/http/test_connection.py::test_many_chunks_are_read_with_pauses",
    ),
    Mutant(
        name="a chunk's extension may have control characters",
        file="protocol/http/chunked_body.py",
        text="(?:;[\\t\\x20-\\x7e\\x80-\\xff]{0,128})?",
        becomes="(?:;[^\\r\\n]{0,128})?",
        found_by="tests/protocol/http/test_connection.py::test_malformed_chunk_is_rejected",
    ),
    Mutant(
        name="non-ASCII letters of AuthZEN's names match in any case",
        file="protocol/decisions/spellings.py",
        text="return self._lower.get(ascii_lower(name)) if found is None else found",
        becomes="return self._lower.get(name.casefold()) if found is None else found",
        found_by="tests/protocol/decisions/test_authzen.py::test_only_ascii_letters_match_in_any_case",
    ),
    Mutant(
        name="an ambiguous spelling of a type means one of them",
        file="protocol/decisions/spellings.py",
        text="        del spelled[spelling]\n",
        becomes="        pass\n",
        found_by="tests/protocol/decisions/test_spellings.py::test_a_name_as_it_was_given_counts_first",
    ),
    Mutant(
        name="a page shows another state than the page before",
        file="protocol/decisions/page_tokens.py",
        text="if token.state != state:",
        becomes="if not token.state:",
        found_by="tests/daemon/queries/test_search.py::test_token_expires_when_the_state_changes",
    ),
    Mutant(
        name="a made-up page token counts",
        file="protocol/decisions/page_tokens.py",
        text="if not hmac.compare_digest(data[:_MAC_BYTES], self._sign(content, search)):",
        becomes="if len(data) < _MAC_BYTES:",
        found_by="tests/daemon/queries/test_search.py::test_token_belongs_to_one_search",
    ),
    Mutant(
        name="any caller searches for subjects",
        file="daemon/queries/search.py",
        text="    SEARCH_SUBJECT_PATH: SEARCHES_OF_ALL,\n",
        becomes="    SEARCH_SUBJECT_PATH: Needs(None, None, ''),\n",
        found_by="tests/daemon/queries/test_search_rights.py::test_a_caller_searches_only_its_own_rights",
    ),
    Mutant(
        name="any caller gets explanations of its own rights",
        file="protocol/http/rights.py",
        text='    Right.SEARCH, Right.SEARCH, "get explanations',
        becomes='    Right.SEARCH, None, "get explanations',
        found_by="tests/daemon/queries/test_search_rights.py::test_explanation_shows_acls_so_it_needs_the_right_to_search",
    ),
    Mutant(
        name="a result is not allowed when it is asked about",
        file="protocol/decisions/search_results.py",
        text="        if not (query.list_hosts or self._is_allowed(pattern.name)):\n",
        becomes="        if query is None:\n",
        found_by="tests/daemon/queries/test_search.py::test_a_pattern_whose_own_name_is_denied_is_no_result",
    ),
    Mutant(
        name="the id of an earlier request is repeated",
        file="protocol/http/connection.py",
        text='            return None\n        self._echo = b""\n',
        becomes="            return None\n",
        found_by="tests/protocol/http/test_request_id.py::test_id_of_a_request_is_only_in_its_own_answer",
    ),
    Mutant(
        name="a question of OPA's plugin may repeat a key",
        file="protocol/decisions/opa.py",
        text="if len(body) > QUESTION_BYTES_MAX or not has_only(body, query):",
        becomes="if len(body) > QUESTION_BYTES_MAX:",
        found_by="tests/protocol/decisions/test_opa.py::test_repeated_key_is_rejected",
    ),
    Mutant(
        name="the type of OPA's principal may contain a colon",
        file="protocol/decisions/opa.py",
        text='    if ":" in principal.principal_type:\n',
        becomes='    if ":" in principal.name and not principal.name:\n',
        found_by="tests/protocol/decisions/test_opa.py::test_colon_in_the_principal_type_is_rejected",
    ),
    Mutant(
        name="a removed token remains valid",
        file="daemon/decisions/callers.py",
        text="if token is not None and token not in callers.tokens:",
        becomes="if False:",
        found_by="tests/daemon/decisions/test_callers.py::test_a_removed_token_is_invalid",
    ),
    Mutant(
        name="a refusal shows a principal of any length",
        file="daemon/decisions/callers.py",
        text="principal[:SHOWN_PRINCIPAL_CHARACTERS]",
        becomes="principal",
        found_by="tests/daemon/decisions/test_authzen_callers.py"
        "::test_refusal_shows_only_the_beginning_of_a_long_principal",
    ),
    Mutant(
        name="a caller with a token may ask about others without the right",
        file="daemon/decisions/callers.py",
        text="needs.itself if about == principal else needs.others",
        becomes="needs.itself",
        found_by="tests/daemon/decisions/test_callers.py::test_callers_may_ask_about_themselves_and_super_users_about_all",
    ),
    *(
        Mutant(
            name=f"the right to {right} implies another one",
            file="daemon/decisions/callers.py",
            text="settings.callers[right] |",
            becomes=f'settings.callers[right] | settings.callers["{right}"] |',
            found_by="tests/daemon/decisions/test_callers.py::test_no_right_implies_another",
        )
        for right in ("ask", "search", "read")
    ),
    Mutant(
        name="a reload leaves the rights of callers as they were",
        file="daemon/components.py",
        text="        self.settings.subscribe(self.callers.reconfigure)\n",
        becomes="",
        found_by="tests/end_to_end/test_watch.py"
        "::test_only_callers_with_the_right_to_read_see_acls",
    ),
    Mutant(
        name="a reload leaves the rights of callers in workers as they were",
        file="daemon/worker.py",
        text="        self._callers.reconfigure(settings)\n",
        becomes="",
        found_by="tests/end_to_end/test_watch.py"
        "::test_only_callers_with_the_right_to_read_see_acls",
    ),
    Mutant(
        name="doctor overlooks a caller that may forward like everyone",
        file="cli/doctor/access.py",
        text="        if acl.principal not in (principal, WILDCARD_PRINCIPAL):\n",
        becomes="        if acl.principal != principal:\n",
        found_by="tests/cli/doctor/test_callers.py::test_rights_of_a_token_holder_in_kafka",
    ),
    Mutant(
        name="an open decision stream keeps the right that a reload has taken",
        file="daemon/decisions/stream_server.py",
        text="in islice({question[0] for question in questions}, 2):",
        becomes="in () if self._server.counts.allowed else {each[0] for each in questions}:",
        found_by="tests/daemon/decisions/test_stream_server_callers.py"
        "::test_with_the_right_to_ask_a_caller_may_ask_about_all",
    ),
    Mutant(
        name="clients may give callers rights",
        file="config/dynamic.py",
        text='_GUARDED_PREFIXES: Final = (f"{OWN_PREFIX}audit.", CALLERS_PREFIX)',
        becomes='_GUARDED_PREFIXES: Final = (f"{OWN_PREFIX}audit.",)',
        found_by="tests/config/test_dynamic.py"
        "::test_reloadable_keys_of_audit_and_callers_are_guarded",
    ),
    Mutant(
        name="a listing of ACLs ignores that the audit cannot be written",
        file="daemon/queries/acl_surface.py",
        text="    authorizer.check_ready(state)\n",
        becomes="    if state.snapshot is None:\n        authorizer.check_ready(state)\n",
        found_by="tests/daemon/queries/test_acl_list.py"
        "::test_nobody_lists_while_a_required_audit_cannot_be_written",
    ),
    Mutant(
        name="requests that a browser may send without preflight are answered",
        file="daemon/decisions/http_surface.py",
        text="if not has_json_type(request):",
        becomes="if not request:",
        found_by="tests/end_to_end/test_serve.py::test_requests_of_other_sites_are_refused",
    ),
    Mutant(
        name="a body of any announced length is read",
        file="protocol/http/connection.py",
        text="if length > self._limits.body_bytes_max:",
        becomes="if length > 2**40:",
        found_by="tests/protocol/http/test_connection.py::test_bad_request_is_rejected_with_its_status",
    ),
    Mutant(
        name="trailers are not checked",
        file="protocol/http/chunked_body.py",
        text="        if not _TRAILERS.fullmatch(buffer, start, end):\n",
        becomes="        if not _TRAILERS:\n",
        found_by="tests/protocol/http/test_connection.py::test_malformed_trailers_are_rejected",
    ),
    Mutant(
        name="a peer may send empty lines for ever",
        file="protocol/http/connection.py",
        text="            self._empty_lines += 1\n",
        found_by="tests/protocol/http/test_connection.py::test_two_empty_lines_before_a_request_are_ignored",
    ),
    Mutant(
        name="a body in chunks may have any length",
        file="protocol/http/chunked_body.py",
        text="if len(chunks) + size > self._limits.body_bytes_max:",
        becomes="if size > self._limits.body_bytes_max:",
        found_by="tests/protocol/http/test_connection.py::test_limits_are_exact",
    ),
    Mutant(
        name="the defaults of evaluations are ignored",
        file="protocol/decisions/authzen.py",
        text="return None if all(field is None for field in fields) else self",
        becomes="return None",
        found_by="tests/daemon/decisions/test_authzen_repeats.py::test_an_evaluation_has_the_defaults_of_its_own_request",
    ),
    Mutant(
        name="the JSON decoder's own error text reaches the caller",
        file="protocol/json_faults.py",
        text='return f"{_INVALID}: the body ends before the document does"',
        becomes="return text",
        found_by="tests/protocol/test_json_faults.py::test_texts_of_the_decoder_are_never_shown",
    ),
    Mutant(
        name="an allowed decision has a hint",
        file="protocol/decisions/authzen_answers.py",
        text="hint = None if allowed else describe_hint(question)",
        becomes="hint = describe_hint(question)",
        found_by="tests/protocol/decisions/test_authzen.py::test_only_a_denial_after_a_likely_mistake_has_a_hint",
    ),
    Mutant(
        name="a description promises access without credentials after certificates are required",
        file="daemon/decisions/callers.py",
        text="        self._trusted = None\n        self._has_client_auth = True\n",
        becomes="        self._trusted = None\n",
        found_by="tests/daemon/test_api_documents.py::test_document_names_the_credentials_in_force",
    ),
    Mutant(
        name="the metrics port describes the admin port",
        file="daemon/telemetry/admin.py",
        text="if self._document is not None and request.path == OPENAPI_PATH",
        becomes="if request.path == OPENAPI_PATH",
        found_by="tests/daemon/test_api_documents.py::test_metrics_port_has_no_document",
    ),
    Mutant(
        name="a port that trusts all callers describes a listing of ACLs",
        file="daemon/http/api_document.py",
        text="    if not accepted:",
        becomes="    if accepted is None:",
        found_by="tests/daemon/test_api_documents.py::test_port_that_trusts_everyone_describes_that_it_lists_no_acls",
    ),
    Mutant(
        name="a question may repeat a key",
        file="protocol/decisions/json_keys.py",
        text='return text.count(b":") == _encode(read)',
        becomes='return text.count(b":") >= _encode(read)',
        found_by="tests/daemon/decisions/test_authzen.py::test_a_repeated_key_is_rejected_even_if_the_question_is_cached",
    ),
    Mutant(
        name="a batch that is decoded as a whole may repeat a key",
        file="protocol/decisions/authzen.py",
        text="len(evaluations) <= EVALUATIONS_MAX and has_only(body, readable)",
        becomes="len(evaluations) <= EVALUATIONS_MAX",
        found_by="tests/protocol/decisions/test_authzen.py::test_repeated_key_is_rejected",
    ),
    Mutant(
        name="any number of evaluations is answered in one step",
        file="daemon/decisions/authzen.py",
        text="if left < 0 and number > start:",
        becomes="if left is None:",
        found_by="tests/daemon/decisions/test_at_once.py::test_all_but_long_batches_are_answered_at_once",
    ),
    Mutant(
        name="a request at once is answered although the next one has begun",
        file="daemon/http/server.py",
        text="isinstance(event, Request) and not protocol.bytes_held",
        becomes="isinstance(event, Request)",
        found_by="tests/daemon/http/test_at_once.py::test_answers_do_not_depend_on_splits_or_paths",
    ),
    Mutant(
        name="an idle connection keeps the token of its last request",
        file="protocol/http/connection.py",
        text="        self._head = None  # an idle connection keeps no token\n",
        becomes="",
        found_by="tests/protocol/http/test_last_head.py::test_no_secret_is_kept",
    ),
    Mutant(
        name="the last head of a connection is kept with its token",
        file="protocol/http/last_head.py",
        text='(_LENGTH, b"authorization", _ID,',
        becomes="(_LENGTH, _ID,",
        found_by="tests/protocol/http/test_last_head.py::test_no_secret_is_kept",
    ),
    Mutant(
        name="a cookie is kept with the last head",
        file="protocol/http/last_head.py",
        text='frozenset((b"cookie", b"proxy-authorization", b"expect"))',
        becomes='frozenset((b"expect",))',
        found_by="tests/protocol/http/test_last_head.py::test_no_secret_is_kept",
    ),
    Mutant(
        name="a value of a known head may end it",
        file="protocol/http/last_head.py",
        text="            elif value.translate(None, _PRINTABLE) or ",
        becomes="            elif ",
        found_by="tests/protocol/http/test_last_head.py::test_any_value_is_read_as_if_no_head_had_come_before",
    ),
    Mutant(
        name="a header line that is none is skipped",
        file="protocol/http/request_head.py",
        text="if len(padded) != count:",
        becomes="if len(padded) > count:",
        found_by="tests/protocol/http/test_connection.py::test_bad_request_is_rejected_with_its_status",
    ),
    Mutant(
        name="an answer takes memory that others hold",
        file="daemon/http/server.py",
        text="if not (reservation.reserve_answer(size) or connection.reserve_answer(size)):",
        becomes="if size < 0:",
        found_by="tests/daemon/http/test_at_once.py::test_large_answers_respect_the_memory_limit",
    ),
    Mutant(
        name="callers that are trusted to ask may see ACLs",
        file="daemon/decisions/callers.py",
        text="        if not needs.trusts:\n",
        becomes="        if needs is None:\n",
        found_by="tests/daemon/queries/test_acl_list.py"
        "::test_callers_that_are_trusted_to_ask_may_not_list",
    ),
    Mutant(
        name="a removed token keeps its watches",
        file="daemon/decisions/callers.py",
        text="if token is not None and token not in callers.tokens:",
        becomes="if needs.itself is None and token is not None and token not in callers.tokens:",
        found_by="tests/daemon/queries/test_acl_watch.py::test_removed_token_ends_its_watches",
    ),
    Mutant(
        name="a watch sends changes after a reload has taken its right away",
        file="daemon/queries/acl_watch.py",
        text="check_may_list(self._authorizer, self._caller)\n            await send(_encode(",
        becomes="await send(_encode(",
        found_by="tests/daemon/queries/test_acl_watch.py"
        "::test_no_change_is_sent_after_a_reload_that_takes_the_right_away",
    ),
    Mutant(
        name="a search of own rights shows names in others' ACLs",
        file="daemon/queries/search.py",
        text="caller == query.principal and caller not in",
        becomes="caller is None and caller not in",
        found_by="tests/daemon/queries/test_search_rights.py"
        "::test_a_search_of_own_rights_shows_no_names_of_others",
    ),
    Mutant(
        name="a watcher resumes in the middle of a batch",
        file="protocol/decisions/acl_feed.py",
        text="id=offset if is_last else None",
        becomes="id=offset",
        found_by="tests/daemon/queries/test_acl_watch.py"
        "::test_long_batch_is_sent_in_parts_and_resumed_as_a_whole",
    ),
    Mutant(
        name="a heartbeat skips changes that are not sent yet",
        file="daemon/queries/acl_watch.py",
        text="        if journal.look_up(self._place) is None:\n",
        becomes="        if journal:\n",
        found_by="tests/daemon/queries/test_acl_watch.py"
        "::test_heartbeat_does_not_skip_a_change_that_has_just_come",
    ),
    Mutant(
        name="an open stream is trusted after a reload has required credentials",
        file="daemon/decisions/stream_server.py",
        text="elif not self._server.callers.trusts_all:",
        becomes="elif not self._server.callers:",
        found_by="tests/daemon/decisions/test_stream_server_callers.py::"
        "test_trust_ends_on_open_connections_once_credentials_are_required",
    ),
)
