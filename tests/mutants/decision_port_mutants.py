"""Mutants of the decision ports: AuthZEN, OPA, the decision stream, and the HTTP server."""

from __future__ import annotations

from typing import Final

from tests.mutants.mutant import Mutant

DECISION_PORT_MUTANTS: Final = (
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
        text="cost = _EVALUATION_BYTES * weight + len(text)",
        becomes="cost = _EVALUATION_BYTES + len(text)",
        found_by="tests/daemon/decisions/test_authzen.py::test_a_long_request_yields_and_keeps_its_snapshot",
    ),
    Mutant(
        name="a web page of another site may send requests",
        file="daemon/http/server.py",
        text="hosts = self.allowed_hosts",
        becomes="hosts = None",
        found_by="tests/end_to_end/test_serve.py::test_requests_of_other_sites_are_refused",
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
        text="cost = _EVALUATION_BYTES * weight + len(text)",
        becomes="cost = _EVALUATION_BYTES * weight",
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
        file="protocol/http/connection.py",
        text="if count == _CHUNKS_AT_ONCE_MAX:",
        becomes="if count < 0:",
        found_by="tests/protocol/http/test_connection.py::test_many_chunks_are_read_with_pauses",
    ),
    Mutant(
        name="a chunk's extension may have control characters",
        file="protocol/http/connection.py",
        text="(?:;[\\t\\x20-\\x7e\\x80-\\xff]{0,128})?",
        becomes="(?:;[^\\r\\n]{0,128})?",
        found_by="tests/protocol/http/test_connection.py::test_malformed_chunk_is_rejected",
    ),
    Mutant(
        name="non-ASCII letters of AuthZEN operations match in any case",
        file="protocol/decisions/authzen.py",
        text="vocabulary.operations.get(ascii_upper(action.name))",
        becomes="vocabulary.operations.get(action.name.upper())",
        found_by="tests/protocol/decisions/test_authzen.py::test_only_ascii_letters_match_in_any_case",
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
        text="return self._token in self._callers.tokens and super()",
        becomes="return super()",
        found_by="tests/daemon/decisions/test_callers.py::test_a_removed_token_is_invalid",
    ),
    Mutant(
        name="a refusal shows a principal of any length",
        file="daemon/decisions/http_surface.py",
        text='(caller.principal or "")[:SHOWN_PRINCIPAL_CHARACTERS]',
        becomes='caller.principal or ""',
        found_by="tests/daemon/decisions/test_authzen_callers.py"
        "::test_refusal_shows_only_the_beginning_of_a_long_principal",
    ),
    Mutant(
        name="a caller with a token may ask about others without CLUSTER_ACTION",
        file="daemon/decisions/callers.py",
        text="if principal == self._principal:",
        becomes="if principal:",
        found_by="tests/daemon/decisions/test_callers.py::test_callers_may_ask_about_themselves_and_super_users_about_all",
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
        text="if head.length > limits.body_bytes_max:",
        becomes="if head.length > 2**40:",
        found_by="tests/protocol/http/test_connection.py::test_bad_request_is_rejected_with_its_status",
    ),
    Mutant(
        name="trailers are not checked",
        file="protocol/http/connection.py",
        text="        if not _TRAILERS.fullmatch(self._buffer, start, end):\n",
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
        file="protocol/http/connection.py",
        text="if len(chunks) + size > self._limits.body_bytes_max:",
        becomes="if size > self._limits.body_bytes_max:",
        found_by="tests/protocol/http/test_connection.py::test_limits_are_exact",
    ),
    Mutant(
        name="the defaults of evaluations are ignored",
        file="daemon/decisions/authzen.py",
        text="defaults = request if has_defaults(request) else None",
        becomes="defaults = None",
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
        name="a question at once may repeat a key",
        file="protocol/decisions/authzen.py",
        text="    return found == colons or found ==",
        becomes="    return found >= colons or found ==",
        found_by="tests/daemon/decisions/test_at_once.py::test_plain_questions_are_answered_at_once",
    ),
    Mutant(
        name="an escaped colon hides a repeated key of a question at once",
        file="protocol/decisions/authzen.py",
        text='    if len(text) > QUESTION_BYTES_MAX or b"\\\\" in text:\n'
        "        return None\n    try:\n        evaluation = ",
        becomes="    if len(text) > QUESTION_BYTES_MAX:\n        return None\n    try:\n"
        "        evaluation = ",
        found_by="tests/daemon/decisions/test_at_once.py::test_plain_questions_are_answered_at_once",
    ),
    Mutant(
        name="any number of evaluations is answered in one step",
        file="daemon/decisions/authzen.py",
        text="if len(questions) * _weight(state, len(body)) > AT_ONCE_MAX:",
        becomes="if not questions:",
        found_by="tests/daemon/decisions/test_at_once.py::test_plain_questions_are_answered_at_once",
    ),
    Mutant(
        name="a request at once is answered although the next one has begun",
        file="daemon/http/server.py",
        text="known.length == len(data) - end",
        becomes="known.length <= len(data) - end",
        found_by="tests/daemon/http/test_at_once.py::test_answers_do_not_depend_on_splits_or_paths",
    ),
    Mutant(
        name="an answer at once takes memory that others hold",
        file="daemon/http/server.py",
        text="            if not has_memory:\n",
        becomes="            if not size:\n",
        found_by="tests/daemon/http/test_at_once.py::test_large_answers_respect_the_memory_limit",
    ),
)
