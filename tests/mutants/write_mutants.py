"""Mutants of changes through a follower: who is forwarded, and what is sent again."""

from __future__ import annotations

from typing import Final

from tests.mutants.mutant import Mutant

WRITE_MUTANTS: Final = (
    Mutant(
        name="a principal that is not listed is forwarded",
        file="daemon/sources/writes/rights.py",
        text="        if principal not in self._listed:\n",
        becomes="        if not self._listed:\n",
        found_by="tests/daemon/sources/writes/test_rights.py::test_unlisted_principals_are_not_forwarded",
    ),
    Mutant(
        name="a caller without proof is forwarded",
        file="daemon/sources/writes/rights.py",
        text="if caller.authentication not in _PROOFS and not is_anonymous:",
        becomes="if caller.authentication is None:",
        found_by="tests/daemon/sources/writes/test_rights.py::test_listed_principals_without_proof_are_not_forwarded",
    ),
    Mutant(
        name="a privileged caller is forwarded without its setting",
        file="daemon/sources/writes/rights.py",
        text="            if applies and kind not in self._privileged:\n",
        becomes="            if applies and not self._listed:\n",
        found_by="tests/daemon/sources/writes/test_rights.py::test_privileged_callers_need_the_setting_of_their_kind",
    ),
    Mutant(
        name="the principal of an Envelope counts as proved by a log-in",
        file="daemon/kafka/envelope.py",
        text="            authentication=Authentication.FORWARDED,\n",
        found_by="tests/daemon/kafka/test_envelope.py::test_authorizer_gets_the_context_of_the_inner_request",
    ),
    Mutant(
        name="a change is acknowledged before it is read",
        file="daemon/sources/writes/delivery.py",
        text="        if not answers.has_success or await self._confirm(answers):\n",
        becomes="        if answers.items:\n",
        found_by="tests/daemon/sources/writes/test_forwarded.py::test_nothing_is_acknowledged_before_it_is_read",
    ),
    Mutant(
        name="a change is sent although its caller has lost the right",
        file="daemon/sources/writes/submission.py",
        text="        if obstacle is not None:\n            return obstacle\n",
        becomes="        del obstacle\n",
        found_by=(
            "tests/daemon/sources/writes/test_forwarded.py"
            "::test_right_is_checked_again_before_a_change_is_sent"
        ),
    ),
    Mutant(
        name="a change whose answer is missing is sent again",
        file="daemon/sources/writes/submission.py",
        text="            return Unknown(str(error))\n",
        becomes="            return NotSent(str(error))\n",
        found_by="tests/daemon/sources/writes/test_forwarded.py::test_deletion_on_a_broken_connection_never_counts_as_done",
    ),
    Mutant(
        name="a deletion that a former controller made is sent again",
        file="daemon/sources/writes/delivery.py",
        text="                return any(each.gone for each in removals), judged\n",
        becomes="                return not removals, judged\n",
        found_by=(
            "tests/daemon/sources/writes/test_forwarded.py"
            "::test_deletion_that_a_former_controller_committed_is_not_repeated"
        ),
    ),
    Mutant(
        name="a connection that its node has closed carries another change",
        file="daemon/sources/writes/connections.py",
        text="connection.node.is_silent and ",
        found_by=(
            "tests/daemon/sources/writes/test_connections.py"
            "::test_connection_that_its_node_has_ended_is_not_used_again"
        ),
    ),
    Mutant(
        name="an answer with too few results is taken for another request's items",
        file="protocol/kafka/acl_client.py",
        text="    if found != count:\n",
        becomes="    if found < 0:\n",
        found_by=(
            "tests/protocol/kafka/test_acl_forwarding.py"
            "::test_answer_with_another_number_of_results_is_rejected"
        ),
    ),
)
