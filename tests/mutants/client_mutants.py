"""Mutants of the Python client libraries: permissions, answers, reconnecting, cancellation."""

from __future__ import annotations

from typing import Final

from tests.mutants.mutant import Mutant

_PACKAGE: Final = "clients/python/src/authorizerd_client"
_BOTH: Final = "tests/clients/test_both_python_clients.py"
_FAILOVER: Final = "tests/clients/test_failover.py"
_TRIO: Final = "tests/clients/test_trio_client.py"
_JAVASCRIPT_FAILOVER: Final = "tests/clients/test_javascript_failover.py"
_JAVASCRIPT: Final = "tests/clients/test_javascript_tls.py"
_TLS: Final = "tests/clients/test_python_tls.py"

CLIENT_MUTANTS: Final = (
    Mutant(
        name="a client takes an unknown decision in a batch for a permission",
        file=f"{_PACKAGE}/values.py",
        text="[code == ALLOWED for",
        becomes="[code != DENIED for",
        found_by=f"{_BOTH}::test_only_the_decision_1_allows",
    ),
    Mutant(
        name="a client takes an unknown decision for a permission",
        file=f"{_PACKAGE}/values.py",
        text="return code == ALLOWED",
        becomes="return code != DENIED",
        found_by=f"{_BOTH}::test_only_the_decision_1_allows",
    ),
    Mutant(
        name="a client takes the answer to another question",
        file=f"{_PACKAGE}/protocol.py",
        text="self._in_flight[0].correlation_id != answer.correlation_id:",
        becomes="False:",
        found_by=f"{_BOTH}::test_invalid_answer_is_never_a_permission",
    ),
    Mutant(
        name="a client accepts any number of decisions",
        file=f"{_PACKAGE}/protocol.py",
        text="len(outcome.codes) != self._count",
        becomes="False",
        found_by=f"{_BOTH}::test_invalid_answer_is_never_a_permission",
    ),
    Mutant(
        name="a client buffers frames of any size",
        file=f"{_PACKAGE}/protocol.py",
        text="if size > self._bytes_max:",
        becomes="if False:",
        found_by=f"{_BOTH}::test_invalid_answer_is_never_a_permission",
    ),
    Mutant(
        name="a client sends frames of any size",
        file=f"{_PACKAGE}/protocol.py",
        text="if size > frame_bytes_max:",
        becomes="if False:",
        found_by=f"{_BOTH}::test_question_that_no_frame_can_hold_is_not_sent",
    ),
    Mutant(
        name="a client connects again without a delay",
        file=f"{_PACKAGE}/backoff.py",
        text="now + min(DELAY_SECONDS_MAX, doubled)",
        becomes="now + 0.0",
        found_by="tests/clients/test_protocol.py::test_delays_double_up_to_a_limit_and_differ",
    ),
    Mutant(
        name="a client does not repeat the question of a broken connection",
        file=f"{_PACKAGE}/daemons.py",
        text="        if isinstance(outcome, ConnectionLostError):\n            return True\n",
        found_by=f"{_TRIO}::test_question_of_a_broken_connection_is_sent_once_more",
    ),
    Mutant(
        name="a client keeps asking a daemon that is not ready",
        file=f"{_PACKAGE}/daemons.py",
        text="return is_not_ready(outcome) and self._count_others(daemon, now) > 0",
        becomes="return False",
        found_by=f"{_FAILOVER}::test_daemon_that_is_not_ready_is_skipped",
    ),
    Mutant(
        name="a client returns to a daemon that is not ready",
        file=f"{_PACKAGE}/trio_links.py",
        text="elif found.offset < 0 <= link.offset:",
        becomes="elif False:",
        found_by=f"{_FAILOVER}::test_daemon_that_is_not_ready_gets_no_question",
    ),
    Mutant(
        name="a silent daemon may use all the time of a question",
        file=f"{_PACKAGE}/daemons.py",
        text="if is_last or not others:",
        becomes="if True:",
        found_by=f"{_FAILOVER}::test_silent_daemon_costs_one_failover_at_most",
    ),
    Mutant(
        name="two silent daemons hide all others",
        file=f"{_PACKAGE}/daemons.py",
        text="return min(due, key=_rank, default=None)",
        becomes="return due[0] if due else None",
        found_by=f"{_FAILOVER}::test_short_time_limit_is_divided_among_the_daemons",
    ),
    Mutant(
        name="a question with an offset gives up a daemon that still has time",
        file=f"{_PACKAGE}/daemons.py",
        text="        if is_last or not others:\n",
        becomes="        if not others:\n",
        found_by=f"{_FAILOVER}::test_last_daemon_may_use_all_the_time_for_an_offset",
    ),
    Mutant(
        name="a client forgets the offset that it must require",
        file=f"{_PACKAGE}/trio.py",
        text="min_offset = max(min_offset, self._required_offset)",
        becomes="pass",
        found_by=f"{_FAILOVER}::test_own_writes_are_read_through_another_daemon",
    ),
    Mutant(
        name="the trio client sends behind a frame that was cut off",
        file=f"{_PACKAGE}/trio_link.py",
        text='            self.end(lambda: ConnectionLostError("a frame was interrupted"))\n',
        found_by=f"{_TRIO}::test_cancelled_send_closes_the_connection",
    ),
    Mutant(
        name="nobody reads on after the reading task was cancelled",
        file=f"{_PACKAGE}/trio_link.py",
        text="                self._wake_a_reader()\n",
        found_by=f"{_TRIO}::test_cancelled_wait_does_not_affect_other_tasks",
    ),
    Mutant(
        name="the trio client puts any number of frames in flight",
        file=f"{_PACKAGE}/trio_link.py",
        text="while len(self._connection.in_flight) >= self._frames_in_flight_max:",
        becomes="while False:",
        found_by=f"{_TRIO}::test_frames_in_flight_are_bounded",
    ),
    Mutant(
        name="the trio client keeps a silent connection",
        file=f"{_PACKAGE}/trio_link.py",
        text="self._waiting[oldest].limit > trio.current_time():",
        becomes="True:",
        found_by=f"{_TRIO}::test_silent_connection_is_replaced",
    ),
    Mutant(
        name="the JavaScript client keeps asking a daemon that is not ready",
        file="clients/javascript/lib/daemons.js",
        text="return isNotReady(outcome) && this.#countOthers(daemon, now) > 0;",
        becomes="return false;",
        found_by=f"{_JAVASCRIPT_FAILOVER}::test_daemon_that_is_not_ready_or_refuses_is_skipped",
    ),
    Mutant(
        name="the JavaScript client returns to a daemon that is not ready",
        file="clients/javascript/lib/links.js",
        text="} else if (found.offset < 0 && link.offset >= 0) {",
        becomes="} else if (false) {",
        found_by=f"{_JAVASCRIPT_FAILOVER}::test_client_returns_to_an_earlier_address",
    ),
    Mutant(
        name="the JavaScript client waits for a silent daemon until the time limit",
        file="clients/javascript/lib/link.js",
        text="    if (attemptMs < Infinity) this.#watch(exchange);\n",
        found_by=f"{_JAVASCRIPT_FAILOVER}::test_silent_daemon_costs_one_failover_at_most",
    ),
    Mutant(
        name="the JavaScript client forgets the offset that it must require",
        file="clients/javascript/lib/client.js",
        text="const required = Math.max(minOffset, this.#requiredOffset);",
        becomes="const required = minOffset;",
        found_by=f"{_JAVASCRIPT_FAILOVER}::test_required_offset_is_awaited_or_found_elsewhere",
    ),
    Mutant(
        name="a client ignores the TLS context of an address without TLS",
        file=f"{_PACKAGE}/tls.py",
        text="        if context is not None:\n",
        becomes="        if False:\n",
        found_by=f"{_TLS}::test_context_for_an_address_without_tls_is_rejected",
    ),
    Mutant(
        name="a client's default context trusts every certificate",
        file=f"{_PACKAGE}/tls.py",
        text="context or ssl.create_default_context()",
        becomes="context or ssl._create_unverified_context()",
        found_by=f"{_TLS}::test_fault_is_named_at_once",
    ),
    Mutant(
        name="a client's default context checks no host name",
        file=f"{_PACKAGE}/tls.py",
        text="    endpoint.new_session()",
        becomes="    endpoint.context.check_hostname = False\n    endpoint.new_session()",
        found_by=f"{_TLS}::test_default_context_checks_certificate_and_host",
    ),
    Mutant(
        name="a client retries a handshake that the daemon has never completed",
        file=f"{_PACKAGE}/tls.py",
        text="        if self._endpoint.has_answered:\n",
        becomes="        if True:\n",
        found_by=f"{_TLS}::test_fault_is_named_at_once",
    ),
    Mutant(
        name="a client loses the reason why its certificate is refused",
        file=f"{_PACKAGE}/tls.py",
        text="            if self._has_received:\n",
        becomes="            if True:\n",
        found_by=f"{_TLS}::test_fault_is_named_at_once",
    ),
    Mutant(
        name="a client without TLS does not recognize a TLS server",
        file=f"{_PACKAGE}/protocol.py",
        text="self._buffer.startswith(_TLS_ALERT)",
        becomes="False",
        found_by=f"{_TLS}::test_peer_that_expects_tls_is_named",
    ),
    Mutant(
        name="the JavaScript client sends its token to a server that it does not trust",
        file="clients/javascript/lib/link.js",
        text='this.#socket.once("secureConnect", () => {',
        becomes='this.#socket.once("connect", () => {',
        found_by=f"{_JAVASCRIPT}::test_fault_is_named_at_once",
    ),
    Mutant(
        name="the JavaScript client ignores the TLS options of an address without TLS",
        file="clients/javascript/lib/daemons.js",
        text="if (tls && !isTls) {",
        becomes="if (false) {",
        found_by=f"{_JAVASCRIPT}::test_other_failures_of_tls_are_named",
    ),
    Mutant(
        name="the JavaScript client loses the reason why its certificate is refused",
        file="clients/javascript/lib/link.js",
        text="if (this.#tls && this.#connection.offset === null) {",
        becomes="if (this.#tls && !this.#isEstablished) {",
        found_by=f"{_JAVASCRIPT}::test_fault_is_named_at_once",
    ),
    Mutant(
        name="a watch goes on after changes that a fault has hidden",
        file="clients/python/src/authorizerd_client/following.py",
        text="self._offset = None  # the events before the fault are lost",
        becomes="pass",
        found_by="tests/clients/test_watch.py::test_changes_before_a_fault_are_listed_again",
    ),
    Mutant(
        name="a dripped handshake keeps a blocking watch waiting",
        file="clients/python/src/authorizerd_client/blocking_watch.py",
        text="tls.is_established:\n                limit(connected, deadline)",
        becomes="tls.is_established:\n                connected.settimeout(self._connect_timeout)",
        found_by="tests/clients/test_watch.py::test_dripped_handshake_ends_at_the_limit",
    ),
    Mutant(
        name="a dripped head keeps a blocking watch waiting",
        file="clients/python/src/authorizerd_client/blocking_watch.py",
        text="        if self._follower.is_answered:\n            deadline = ",
        becomes="        if self._follower:\n            deadline = ",
        found_by="tests/clients/test_watch.py::test_dripped_head_ends_at_the_limit",
    ),
    Mutant(
        name="a dripped head keeps a watch of trio waiting",
        file="clients/python/src/authorizerd_client/trio_watch.py",
        text="        if self._follower.is_answered:\n            deadline = ",
        becomes="        if self._follower:\n            deadline = ",
        found_by="tests/clients/test_watch.py::test_dripped_head_ends_at_the_limit",
    ),
    Mutant(
        name="a dripped head keeps a watch in JavaScript waiting",
        file="clients/javascript/lib/watch.js",
        text='    const timer = setTimeout(() => end("not answered"), silenceMs);',
        becomes="    const timer = request.setTimeout(silenceMs, () => end('silent'));",
        found_by="tests/clients/test_javascript_watch.py::test_dripped_head_ends_at_the_limit",
    ),
)
