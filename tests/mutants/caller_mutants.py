"""Mutants of who may ask on the HTTP ports, the decision stream and the console."""

from typing import Final

from tests.mutants.mutant import Mutant

CALLER_MUTANTS: Final = {
    # Decision ports
    "one caller's searches and questions about the past take all slots": Mutant(
        file="daemon/queries/admission.py",
        text="_has_slot(caller, waiting, self.running, WAITING_MAX)",
        becomes="_has_slot(None, waiting, self.running, WAITING_MAX)",
        found_by="tests/daemon/queries/test_admission.py::test_one_caller_cannot_take_all_places",
    ),
    "slow readers of listings keep all others out": Mutant(
        file="daemon/queries/process.py",
        text="            self._admission.finish(question)",
        becomes="            pass",
        found_by="tests/daemon/queries/test_process.py::test_slow_reader_of_a_listing_holds_up_nobody",
    ),
    "a question is answered by a state before the one that its caller has seen": Mutant(
        file="daemon/queries/admission.py",
        text="if question.offset <= offset:",
        becomes="if True:",
        found_by="tests/daemon/queries/test_process.py::test_question_waits_for_its_offset",
    ),
    "an answer that came too late is given": Mutant(
        file="daemon/decisions/http_surface.py",
        text="        if self._authorizer.has_expired(state):\n            found",
        becomes="        if False:\n            found",
        found_by="tests/daemon/queries/test_search_rights.py::test_no_answer_once_a_state_expires",
    ),
    "a question is decided for the host of the one before it": Mutant(
        file="daemon/decisions/stream_server.py",
        text="if host != last_host:",
        becomes="if last_host is None:",
        found_by="tests/daemon/decisions/test_stream_server.py::test_decision_depends_only_on_its_own_question",
    ),
    "a web page of another site may send requests": Mutant(
        file="daemon/http/server.py",
        text="hosts, host = server.allowed_hosts, ",
        becomes="hosts, host = None, ",
        found_by="tests/end_to_end/test_serve.py::test_requests_of_other_sites_are_refused",
    ),
    "a caller gets an answer after a reload has taken its right": Mutant(
        file="daemon/decisions/http_surface.py",
        text="        if version == self._callers.version:\n",
        becomes="        if version is not None:\n",
        found_by="tests/daemon/queries/test_search_rights.py::test_waiting_search_is_refused_without_a_right",
    ),
    "a listing goes on after a reload has taken its caller's right": Mutant(
        file="daemon/queries/listings.py",
        text="check()  # check before each part: a slow reader may take minutes",
        becomes="pass",
        found_by="tests/daemon/queries/test_acl_list.py::test_listing_ends_once_the_right_is_gone",
    ),
    "a frame of the stream is answered after a reload has taken its caller's right": Mutant(
        file="daemon/decisions/stream_server.py",
        text=("                self._check_rights(ask.questions)\n        except ForbiddenError:"),
        becomes="        except ForbiddenError:",
        found_by="tests/daemon/decisions/test_stream_server_connections.py::test_frame_that_takes_turns_is_refused_once_the_right_is_gone",
    ),
    "callers without a token are trusted although there is a tokens file": Mutant(
        file="daemon/decisions/callers.py",
        text="        if token is None:\n            return None if certified is None",
        becomes=("        if token is None:\n            return Trusted() if certified is None"),
        found_by="tests/daemon/decisions/test_callers.py::test_tokens_file_makes_callers_need_a_token",
    ),
    "a repeated JSON key is accepted": Mutant(
        file="protocol/decisions/json_keys.py",
        text="        if key in keys:\n",
        becomes="        if key in keys and not keys:\n",
        found_by="tests/protocol/decisions/test_json_keys.py::test_text_is_rejected_exactly_if_a_key_is_repeated",
    ),
    "evaluations beyond the limit are ignored": Mutant(
        file="protocol/decisions/authzen_batches.py",
        text="    forbid_unknown_fields=True,\n",
        found_by="tests/protocol/decisions/test_authzen.py::test_number_of_evaluations_is_limited",
    ),
    "a chunk's extension may have control characters": Mutant(
        file="protocol/http/chunked_body.py",
        text="(?:;[\\t\\x20-\\x7e\\x80-\\xff]{0,128})?",
        becomes="(?:;[^\\r\\n]{0,128})?",
        found_by="tests/protocol/http/test_connection.py::test_malformed_chunk_is_rejected",
    ),
    "an ambiguous spelling of a type means one of them": Mutant(
        file="protocol/decisions/spellings.py",
        text="        del spelled[spelling]\n",
        becomes="        pass\n",
        found_by="tests/protocol/decisions/test_spellings.py::test_a_name_as_it_was_given_counts_first",
    ),
    "a made-up page token counts": Mutant(
        file="protocol/decisions/page_tokens.py",
        text="if not hmac.compare_digest(data[:_MAC_BYTES], self._sign(content, search)):",
        becomes="if len(data) < _MAC_BYTES:",
        found_by="tests/daemon/queries/test_search.py::test_token_belongs_to_one_search",
    ),
    "any caller searches for subjects": Mutant(
        file="daemon/queries/search.py",
        text="    SEARCH_SUBJECT_PATH: SEARCHES_OF_ALL,\n",
        becomes="    SEARCH_SUBJECT_PATH: Needs(None, None, ''),\n",
        found_by="tests/daemon/queries/test_search_rights.py::test_a_caller_searches_only_its_own_rights",
    ),
    "any caller gets explanations of its own rights": Mutant(
        file="protocol/http/rights.py",
        text='    Right.SEARCH, Right.SEARCH, "get explanations',
        becomes='    Right.SEARCH, None, "get explanations',
        found_by="tests/daemon/queries/test_search_rights.py::test_explanation_shows_acls_so_it_needs_the_right_to_search",
    ),
    "a question of OPA's plugin may repeat a key": Mutant(
        file="protocol/decisions/opa.py",
        text="is_checked = len(body) <= QUESTION_BYTES_MAX and has_only(body, query)",
        becomes="is_checked = len(body) <= QUESTION_BYTES_MAX",
        found_by="tests/protocol/decisions/test_opa.py::test_repeated_key_is_rejected",
    ),
    "a question of OPA's plugin with a number of many digits may repeat a key": Mutant(
        file="protocol/decisions/opa.py",
        text="query, is_checked = _decode_used(body), False",
        becomes="query, is_checked = _decode_used(body), True",
        found_by="tests/protocol/decisions/test_opa.py::test_ignored_field_may_be_a_number_of_many_digits",
    ),
    "a removed token remains valid": Mutant(
        file="daemon/decisions/callers.py",
        text="if token is not None and token not in callers.tokens:",
        becomes="if False:",
        found_by="tests/daemon/decisions/test_callers.py::test_a_removed_token_is_invalid",
    ),
    "a caller with a token may ask about others without the right": Mutant(
        file="daemon/decisions/callers.py",
        text="needs.itself if about == principal else needs.others",
        becomes="needs.itself",
        found_by="tests/daemon/decisions/test_callers.py::test_callers_may_ask_about_themselves_and_super_users_about_all",
    ),
    "the right to ask implies another one": Mutant(
        file="daemon/decisions/callers.py",
        text="settings.callers[right] |",
        becomes='settings.callers[right] | settings.callers["ask"] |',
        found_by="tests/daemon/decisions/test_callers.py::test_no_right_implies_another",
    ),
    "a reload leaves the rights of callers as they were": Mutant(
        file="daemon/components.py",
        text="        self.settings.subscribe(self.callers.reconfigure)\n",
        found_by="tests/end_to_end/test_watch.py::test_only_callers_with_the_right_to_read_see_acls",
    ),
    "a reload leaves the rights of callers in workers as they were": Mutant(
        file="daemon/worker.py",
        text="        self._callers.reconfigure(settings)\n",
        found_by="tests/end_to_end/test_watch.py::test_only_callers_with_the_right_to_read_see_acls",
    ),
    "an open decision stream keeps the right that a reload has taken": Mutant(
        file="daemon/decisions/stream_server.py",
        text="in islice({question[0] for question in questions}, 2):",
        becomes="in () if self._server.counts.allowed else {each[0] for each in questions}:",
        found_by="tests/daemon/decisions/test_stream_server_connections.py::test_with_the_right_to_ask_a_caller_may_ask_about_all",
    ),
    "clients may give callers rights": Mutant(
        file="config/dynamic.py",
        text='_GUARDED_PREFIXES: Final = (f"{OWN_PREFIX}audit.", CALLERS_PREFIX)',
        becomes='_GUARDED_PREFIXES: Final = (f"{OWN_PREFIX}audit.",)',
        found_by="tests/config/test_dynamic.py::test_reloadable_keys_of_audit_and_callers_are_guarded",
    ),
    "requests that a browser may send without preflight are answered": Mutant(
        file="daemon/decisions/http_surface.py",
        text="if not has_json_type(request):",
        becomes="if not request:",
        found_by="tests/end_to_end/test_serve.py::test_requests_of_other_sites_are_refused",
    ),
    "a body of any announced length is read": Mutant(
        file="protocol/http/connection.py",
        text="if length > self._limits.body_bytes_max:",
        becomes="if length > 2**40:",
        found_by="tests/protocol/http/test_connection.py::test_bad_request_is_rejected_with_its_status",
    ),
    "trailers are not checked": Mutant(
        file="protocol/http/chunked_body.py",
        text="        if not _TRAILERS.fullmatch(buffer, start, end):\n",
        becomes="        if not _TRAILERS:\n",
        found_by="tests/protocol/http/test_connection.py::test_malformed_trailers_are_rejected",
    ),
    "a body in chunks may have any length": Mutant(
        file="protocol/http/chunked_body.py",
        text="if len(chunks) + size > self._limits.body_bytes_max:",
        becomes="if size > self._limits.body_bytes_max:",
        found_by="tests/protocol/http/test_connection.py::test_limits_are_exact",
    ),
    "an idle connection keeps the token of its last request": Mutant(
        file="protocol/http/connection.py",
        text="        self._head = None  # an idle connection keeps no token\n",
        found_by="tests/protocol/http/test_last_head.py::test_no_secret_is_kept",
    ),
    "a value of a known head may end it": Mutant(
        file="protocol/http/last_head.py",
        text='rb"[!-~](?:[ -~]*+(?<! ))?"',
        becomes='rb"[^\\r]++"',
        found_by="tests/protocol/http/test_last_head.py::test_any_value_is_read_as_if_no_head_had_come_before",
    ),
    "a line that is not a header is skipped": Mutant(
        file="protocol/http/request_head.py",
        text="if len(padded) != count:",
        becomes="if len(padded) > count:",
        found_by="tests/protocol/http/test_connection.py::test_bad_request_is_rejected_with_its_status",
    ),
    "an answer takes memory that others hold": Mutant(
        file="daemon/http/server.py",
        text="if not (reservation.reserve_answer(size) or connection.reserve_answer(size)):",
        becomes="if size < 0:",
        found_by="tests/daemon/http/test_at_once.py::test_large_answers_respect_the_memory_limit",
    ),
    "callers that are trusted to ask may see ACLs": Mutant(
        file="daemon/decisions/callers.py",
        text="        if not needs.trusts:\n",
        becomes="        if needs is None:\n",
        found_by="tests/daemon/queries/test_acl_list.py::test_trusted_callers_may_not_list_or_watch",
    ),
    "a removed token keeps its watches": Mutant(
        file="daemon/decisions/callers.py",
        text="if token is not None and token not in callers.tokens:",
        becomes="if needs.itself is None and token is not None and token not in callers.tokens:",
        found_by="tests/daemon/queries/test_acl_watch.py::test_removed_token_ends_its_watches",
    ),
    "a watch sends changes after a reload has taken its right away": Mutant(
        file="daemon/queries/acl_watch.py",
        text=("check_may_list(self._authorizer, self._caller)\n            await send(_encode("),
        becomes="await send(_encode(",
        found_by="tests/daemon/queries/test_acl_watch.py::test_no_change_is_sent_after_a_reload_that_takes_the_right_away",
    ),
    "a search of own rights shows names in others' ACLs": Mutant(
        file="daemon/queries/search.py",
        text="caller == query.principal and caller not in",
        becomes="caller is None and caller not in",
        found_by="tests/daemon/queries/test_search_rights.py::test_a_search_of_own_rights_shows_no_names_of_others",
    ),
    "an open stream is trusted after a reload has required credentials": Mutant(
        file="daemon/decisions/stream_server.py",
        text="elif not self._server.callers.trusts_all:",
        becomes="elif not self._server.callers:",
        found_by="tests/daemon/decisions/test_stream_server_connections.py::test_trust_ends_on_open_connections_once_tokens_are_due",
    ),
    # Console
    "names are printed as HTML": Mutant(
        file="daemon/console/rendering.py",
        text="        autoescape=True,\n",
        becomes="        autoescape=False,\n",
        found_by="tests/daemon/console/test_rendering.py::test_hostile_name_is_only_text",
    ),
    "a page of another site may ask questions": Mutant(
        file="daemon/console/handler.py",
        text="        if is_refused_as_foreign(request):\n",
        becomes="        if is_refused_as_foreign(request) and not request.body:\n",
        found_by="tests/daemon/console/test_handler.py::test_page_of_another_site_is_refused",
    ),
    "the origin of a form is ignored": Mutant(
        file="daemon/console/requests.py",
        text="    return origin is not None and origin.partition",
        becomes="    return False and origin.partition",
        found_by="tests/daemon/console/test_requests.py::test_pages_of_other_sites_may_only_link_to_pages",
    ),
    "a log-in leads to any address": Mutant(
        file="daemon/console/handler.py",
        text=" if path in self._pages and _QUERY.fullmatch(query) else ROOT_PATH\n",
        becomes=" if path or _QUERY.fullmatch(query) else ROOT_PATH\n",
        found_by="tests/daemon/console/test_handler.py::test_log_in_leads_to_a_console_page",
    ),
    "tokens may be guessed at any rate": Mutant(
        file="daemon/console/handler.py",
        text="            await self._limit.delay()\n",
        found_by="tests/daemon/console/test_handler.py::test_wrong_tokens_are_slow_and_keep_nobody_out",
    ),
    "the session of a removed token becomes valid with the token again": Mutant(
        file="daemon/console/handler.py",
        text=("                self._sessions.close(secret)\n                token = None\n"),
        becomes="                token = None\n",
        found_by="tests/daemon/console/test_handler.py::test_removed_token_ends_its_sessions",
    ),
    "a spreadsheet computes names": Mutant(
        file="daemon/queries/tables.py",
        text='    return f"\'{cell}" if is_odd or (first and first in _FORMULA) else cell\n',
        becomes="    return cell\n",
        found_by="tests/daemon/queries/test_tables.py::test_no_part_of_a_cell_is_a_formula",
    ),
    "plain HTTP may set the cookie of a console with TLS": Mutant(
        file="daemon/console/setup.py",
        text="        cookie=SECURE_COOKIE if configuration.admin_http.is_tls else COOKIE,\n",
        becomes="        cookie=COOKIE,\n",
        found_by="tests/daemon/console/test_handler.py::test_only_tls_has_a_cookie_that_plain_http_cannot_set",
    ),
    "a session that is used never ends": Mutant(
        file="daemon/console/sessions.py",
        text=" or now - self.begun >= SECONDS_MAX\n",
        becomes="\n",
        found_by="tests/daemon/console/test_requests.py::test_used_session_ends_after_its_longest_time",
    ),
    "a line of many markers is matched for minutes": Mutant(
        file="daemon/audit/lines.py",
        text=(
            "    if sum(map(line.count, _MARKERS)) != len(_MARKERS) - 1:\n"
            "        return None\n"
            "    without = remove_caller(line)\n"
            "    found = None if without is None else _LINE.match(without[0])\n"
        ),
        becomes=(
            "    found = _LINE.match(line)\n"
            "    if sum(map(line.count, _MARKERS)) != len(_MARKERS) - 1:\n"
            "        return None\n"
        ),
        found_by="tests/daemon/audit/test_format.py::test_line_with_too_many_markers_is_not_matched",
    ),
    "any number of failed log-ins waits": Mutant(
        file="daemon/console/handler.py",
        text="            if self._limit.is_reached:\n",
        becomes="            if self._limit is None:\n",
        found_by="tests/daemon/console/test_handler.py::test_wrong_tokens_are_slow_and_keep_nobody_out",
    ),
    "anyone with a token sees differences from brokers": Mutant(
        file="daemon/console/pages/verify.py",
        text="        visit.caller.check(VERIFICATION)\n",
        becomes="",
        found_by="tests/daemon/console/test_rights.py::test_every_page_requires_its_rights",
    ),
    "anyone with a token sees denials of others": Mutant(
        file="daemon/console/pages/live.py",
        text="            caller.check(DENIALS)\n",
        becomes="            pass\n",
        found_by="tests/end_to_end/test_console.py::test_denials_need_a_file_and_a_right",
    ),
    "candidates are judged without the right to read": Mutant(
        file="protocol/http/rights.py",
        text='Needs(Right.READ, Right.READ, "list or watch ACLs",',
        becomes='Needs(Right.SEARCH, Right.READ, "list or watch ACLs",',
        found_by="tests/daemon/console/pages/test_plan.py::test_right_to_read_is_necessary",
    ),
    "anyone who may search may read a history": Mutant(
        file="daemon/queries/question_surface.py",
        text='("History", HISTORIES)',
        becomes='("History", EXPLANATIONS)',
        found_by="tests/daemon/decisions/test_past_requests.py::test_question_about_the_past_needs_the_right_to_read",
    ),
    "anyone gets explanations": Mutant(
        file="daemon/queries/question_surface.py",
        text="        self._check(requester, self._needs, question.principal)\n",
        found_by="tests/daemon/queries/test_search_rights.py::test_explanation_shows_acls_so_it_needs_the_right_to_search",
    ),
}
