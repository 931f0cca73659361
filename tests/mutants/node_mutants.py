"""Mutants of connections to a followed cluster, and of what its nodes answer."""

from __future__ import annotations

from typing import Final

from tests.mutants.mutant import Mutant

NODE_MUTANTS: Final = (
    Mutant(
        name="a snapshot may have an epoch that its leader does not know",
        file="daemon/sources/quorum/machine.py",
        text=" <= snapshot.epoch <= self.contact.route.epoch:\n",
        becomes=" <= snapshot.epoch:\n",
        found_by="tests/daemon/sources/quorum/test_machine.py::test_a_useless_answer_drops_the_connection_and_changes_nothing",
    ),
    Mutant(
        name="a server can make any number of metrics",
        file="daemon/sources/status.py",
        text=" or len(self.errors) < REASONS_MAX\n",
        becomes=" or True\n",
        found_by="tests/daemon/sources/test_status.py::test_reasons_of_errors_are_bounded",
    ),
    Mutant(
        name="every failure is logged while the contact comes and goes",
        file="daemon/sources/failure_log.py",
        text=" - self._logged_at >= LOGGED_AGAIN_SECONDS:\n",
        becomes=":\n",
        found_by="tests/daemon/sources/quorum/test_source.py::test_contact_that_comes_and_goes_does_not_flood_the_log",
    ),
    Mutant(
        name="a server can make any number of kinds of failures",
        file="daemon/sources/failure_log.py",
        text=" or len(self._kinds) >= KINDS_MAX:\n",
        becomes=":\n",
        found_by="tests/daemon/sources/test_failure_log.py::test_kinds_are_bounded",
    ),
    Mutant(
        name="any text is taken for the cluster's id",
        file="daemon/sources/quorum/link.py",
        text="        if not is_cluster_id(cluster.cluster_id):\n",
        becomes="        if False:\n",
        found_by="tests/daemon/sources/quorum/test_source.py::test_answer_without_a_real_cluster_id_is_garbage",
    ),
    Mutant(
        name="a server without Metadata ends the daemon",
        file="daemon/sources/brokers/exchange.py",
        text="            if error.error.code != ErrorCode.UNSUPPORTED_VERSION:\n",
        becomes="            if True:\n                raise\n            if error.error.code:\n",
        found_by="tests/daemon/sources/brokers/test_source.py::test_server_that_lacks_an_api_is_left",
    ),
    Mutant(
        name="an answer about another topic is taken for the metadata log",
        file="protocol/kafka/fetch.py",
        text='        _expect("topic_id", topic.topic_id, METADATA_TOPIC_ID)\n',
        found_by="tests/protocol/kafka/test_fetch.py::test_answer_about_something_else_is_rejected",
    ),
    Mutant(
        name="a piece may lie outside of its snapshot",
        file="protocol/kafka/fetch.py",
        text="    if piece.error_code == 0 and not 0 <= position <= end <= size:\n",
        becomes="    if False:\n",
        found_by="tests/protocol/kafka/test_fetch_snapshot.py::test_piece_outside_of_the_snapshot_is_rejected",
    ),
    Mutant(
        name="the answer to another envelope is taken for this one's",
        file="protocol/kafka/envelope_client.py",
        text="    if correlation_id != request.correlation_id:\n",
        becomes="    if False:\n",
        found_by="tests/protocol/kafka/test_envelope_client.py::test_answer_to_something_else_is_rejected",
    ),
    Mutant(
        name="a node that requires a log-in is used without one",
        file="daemon/sources/nodes.py",
        text="        if is_required:\n",
        becomes="        if False:\n",
        found_by="tests/daemon/sources/test_nodes.py::test_error_names_node_reason_and_remedy",
    ),
    Mutant(
        name="changed stores are not read again",
        file="daemon/sources/nodes.py",
        text="        if stamp != self._stamp:\n",
        becomes="        if self._stamp is None:\n",
        found_by="tests/daemon/sources/test_nodes.py::test_changed_truststore_is_read_again",
    ),
)
