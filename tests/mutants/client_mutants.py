"""Mutants of the Python client libraries: permissions, answers, reconnecting, cancellation."""

from __future__ import annotations

from typing import Final

from tests.mutants.mutant import Mutant

_PACKAGE: Final = "clients/python/src/authorizerd_client"
_BOTH: Final = "tests/clients/test_both_python_clients.py"
_TRIO: Final = "tests/clients/test_trio_client.py"

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
        name="the blocking client does not repeat the question of a broken connection",
        file=f"{_PACKAGE}/blocking.py",
        text="            decisions = self._exchange(self._get_link(deadline), request, deadline)",
        becomes="            raise",
        found_by=f"{_BOTH}::test_restarted_daemon_is_found_again",
    ),
    Mutant(
        name="the trio client does not repeat the question of a broken connection",
        file=f"{_PACKAGE}/trio.py",
        text="        except ConnectionLostError:\n            link = await self._get_link()",
        becomes="        except ConnectionLostError:\n            raise",
        found_by=f"{_TRIO}::test_question_of_a_broken_connection_is_sent_once_more",
    ),
    Mutant(
        name="the trio client sends behind a frame that was cut off",
        file=f"{_PACKAGE}/trio.py",
        text='            self.end(lambda: ConnectionLostError("a frame was interrupted"))\n',
        found_by=f"{_TRIO}::test_cancelled_send_closes_the_connection",
    ),
    Mutant(
        name="nobody reads on after the reading task was cancelled",
        file=f"{_PACKAGE}/trio.py",
        text="                self._wake_a_reader()\n",
        found_by=f"{_TRIO}::test_cancelled_wait_does_not_affect_other_tasks",
    ),
    Mutant(
        name="the trio client puts any number of frames in flight",
        file=f"{_PACKAGE}/trio.py",
        text="while len(self._connection.in_flight) >= self._frames_in_flight_max:",
        becomes="while False:",
        found_by=f"{_TRIO}::test_frames_in_flight_are_bounded",
    ),
    Mutant(
        name="the trio client keeps a silent connection",
        file=f"{_PACKAGE}/trio.py",
        text="self._waiting[oldest].limit <= trio.current_time():",
        becomes="False:",
        found_by=f"{_TRIO}::test_silent_connection_is_replaced",
    ),
)
