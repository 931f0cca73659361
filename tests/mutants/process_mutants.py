"""Mutants of the process, its workers, its sockets, and its log of audit lines."""

from typing import Final

from tests.mutants.mutant import Mutant

PROCESS_MUTANTS: Final = {
    "workers serve at a path that another daemon has taken": Mutant(
        file="daemon/lifespan.py",
        text="self._endpoints[name].check_in_place()",
        becomes="pass",
        found_by="tests/daemon/test_lifespan.py::test_daemon_ends_if_the_socket_of_its_workers_was_replaced",
    ),
    "the daemon uses another configuration than that of the locked directory": Mutant(
        file="daemon/components.py",
        text="        self.configuration: Final = configuration\n",
        becomes=(
            "        configuration = read_configuration()\n"
            "        self.configuration: Final = configuration\n"
        ),
        found_by="tests/daemon/test_lifespan.py::test_daemon_is_ready_only_once_every_endpoint_listens",
    ),
    "two daemons share a port while their ACLs are loaded": Mutant(
        file="daemon/net/binding.py",
        text="trio.socket.SO_REUSEADDR, 0)",
        becomes="trio.socket.SO_REUSEADDR, 1)",
        found_by="tests/daemon/net/test_binding.py::test_address_of_another_daemons_workers_is_not_shared",
    ),
    "workers decide again after a change that could not be applied": Mutant(
        file="daemon/workers/pool.py",
        text="STOPPED if self._has_failed else reason",
        becomes="reason",
        found_by="tests/daemon/workers/test_pool.py::test_workers_stay_undecided_after_a_misfit",
    ),
    "the daemon is ready before its endpoints listen": Mutant(
        file="daemon/telemetry/readiness.py",
        text="not self._is_listening()",
        becomes="False",
        found_by="tests/daemon/test_lifespan.py::test_daemon_is_ready_only_once_every_endpoint_listens",
    ),
    "workers go on deciding although their daemon hangs": Mutant(
        file="daemon/workers/pool.py",
        text="min(self._deadline, self._clock() + self._lease_s)",
        becomes="self._deadline",
        found_by="tests/daemon/workers/test_pool.py::test_lease_of_a_worker_ends_with_the_daemon_that_renews_it",
    ),
    "a worker decides for longer than its daemon": Mutant(
        file="daemon/workers/feed_source.py",
        text="                        await applier.send(Renew(order.deadline))\n",
        found_by="tests/daemon/workers/test_feed_source.py::test_stop_and_deadline_reach_the_applier_in_order",
    ),
    "a daemon begins while a worker of an earlier one may answer": Mutant(
        file="daemon/workers/predecessors.py",
        text="while not self._try(fcntl.LOCK_EX) and",
        becomes="while False and",
        found_by="tests/daemon/workers/test_predecessors.py::test_daemon_waits_for_the_worker_of_a_killed_one",
    ),
    "a request that lasted too long is answered by old ACLs": Mutant(
        file="actors/daemon_authorizer.py",
        text="        if self.has_expired(state):\n",
        becomes="        if state is None:\n",
        found_by="tests/actors/test_standard_authorizer.py::test_request_that_outlives_its_state_gets_no_answer",
    ),
    "an audit line has any text that a client sends as X-Request-ID": Mutant(
        file="acl/audit/caller.py",
        text="value is not None and _REQUEST_ID.fullmatch(value) else None",
        becomes="value is not None else None",
        found_by="tests/acl/audit/test_caller.py::test_request_id_of_another_form_is_left_out",
    ),
    "the log's queue grows without bound": Mutant(
        file="daemon/logging/queue.py",
        text="if self._size + len(data) > QUEUE_BYTES_MAX:",
        becomes="if False:",
        found_by="tests/daemon/logging/test_queue.py::test_full_queue_drops_lines_and_never_blocks",
    ),
    "the ready file is written through a symbolic link": Mutant(
        file="daemon/telemetry/ready_file.py",
        text="os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW",
        becomes="os.O_CREAT",
        found_by="tests/daemon/telemetry/test_readiness.py::test_existing_file_at_the_temporary_name_is_kept",
    ),
    "the update queue ends before the connections": Mutant(
        file="daemon/lifespan.py",
        text="self._acting(), self._writing(), self._serving()",
        becomes="self._acting(), self._serving(), self._writing()",
        found_by="tests/daemon/test_lifespan.py::test_change_under_way_is_answered_and_durable_before_the_actors_and_the_audit_end",
    ),
    "a server does not wait for the gate": Mutant(
        file="daemon/lifespan.py",
        text="        await self._gate.wait_until_open(name)\n",
        found_by="tests/end_to_end/test_early_start.py::test_every_other_endpoint_refuses_connections",
    ),
    "the text of a client forges a line of the log": Mutant(
        file="daemon/logging/setup.py",
        text='event = escape_line(f"{message}\\n{exception}" if exception else message)',
        becomes='event = f"{message}\\n{exception}" if exception else message',
        found_by="tests/end_to_end/test_forged_lines.py::test_no_client_forges_a_line",
    ),
    "a name forges a line of the audit": Mutant(
        file="daemon/audit/format.py",
        text="        message = message.translate(KAFKA_ESCAPES)\n",
        becomes="        pass\n",
        found_by="tests/end_to_end/test_forged_lines.py::test_no_client_forges_a_line",
    ),
    "a name server opens a port of localhost to other machines": Mutant(
        file="daemon/net/binding.py",
        text="if is_local and not is_loopback(resolved):",
        becomes="if False:",
        found_by="tests/daemon/net/test_binding.py::test_localhost_must_be_this_machine_alone",
    ),
}
