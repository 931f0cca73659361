"""Mutants of what a connection may cost: limits, eviction, memory, descriptors."""

from __future__ import annotations

from typing import Final

from tests.mutants.mutant import Mutant

CONNECTION_MUTANTS: Final = (
    Mutant(
        name="an error of a thread leaves a cycle of objects",
        file="daemon/process/threads.py",
        text="await trio.to_thread.run_sync(run, ",
        becomes="return await trio.to_thread.run_sync(function, *arguments, ",
        found_by="tests/daemon/process/test_threads.py::test_error_leaves_no_cycle",
    ),
    Mutant(
        name="each connection that is reset while it is idle leaks",
        file="daemon/net/selector.py",
        text="error, waiter.error = waiter.error, None",
        becomes="error = waiter.error",
        found_by="tests/daemon/net/test_selector.py::test_connection_that_ends_with_an_error_is_freed_without_a_collection",
    ),
    Mutant(
        name="a request that has just arrived is refused for overload",
        file="daemon/net/turns.py",
        text="so the first one is not refused.\n        self._is_late = False\n",
        becomes="so the first one is not refused.\n",
        found_by="tests/daemon/net/test_load_shedding.py::test_request_behind_no_unanswered_one_is_admitted",
    ),
    Mutant(
        name="a turn has any number of slices",
        file="daemon/net/turns.py",
        text="work_ns // max(1, self._slice_ns)",
        becomes="SLICES_MAX",
        found_by="tests/daemon/net/test_turns.py::test_turn_has_as_many_slices_as_fit",
    ),
    Mutant(
        name="a cancelled connection stops the others",
        file="daemon/net/turns.py",
        text="            finally:  # a cancelled task, too, must release the next ones\n",
        becomes="            except OSError:\n                pass\n            else:\n",
        found_by="tests/daemon/net/test_turns.py::test_cancelled_connections_hold_up_nobody",
    ),
    Mutant(
        name="connections are unbounded",
        file="daemon/net/accepting.py",
        text="places.taken < limits.unreserved_max",
        becomes="places.taken >= 0",
        found_by="tests/daemon/kafka/test_listener_limits.py::test_connections_above_the_limit_are_closed",
    ),
    Mutant(
        name="a connection that has given way is ended again for each newcomer",
        file="daemon/net/connection_server.py",
        text="        if connection not in self._open:\n            return\n",
        becomes="",
        found_by="tests/daemon/net/test_connection_server.py::test_connection_that_asks_while_it_gives_way_keeps_no_place",
    ),
    Mutant(
        name="silent connections block new ones",
        file="daemon/net/accepting.py",
        text="                and places.evict(newcomer.network)\n",
        becomes="                and limits is None\n",
        found_by="tests/daemon/net/test_connection_server.py::test_newcomer_replaces_the_oldest_silent_connection",
    ),
    Mutant(
        name="clients that do not read block new ones before their log-in",
        file="daemon/net/connection.py",
        text="self.is_confined and self.phase is Phase.SENDING",
        becomes="self.is_confined and self.phase is Phase.IDLE",
        found_by="tests/daemon/kafka/test_listener_limits.py::test_unauthenticated_client_that_does_not_read_gives_way",
    ),
    Mutant(
        name="a busy connection is evicted for a new one",
        file="daemon/net/open_connections.py",
        text="return guest.is_waiting or self._is_stalled(guest, STALL_SECONDS_MIN)",
        becomes="return True",
        found_by="tests/daemon/net/test_connection_server.py::test_connection_with_a_request_under_way_never_gives_way",
    ),
    Mutant(
        name="an idle connection is evicted at once",
        file="daemon/net/open_connections.py",
        text="connection.since + least_s <= trio.current_time()",
        becomes="least_s > 0",
        found_by="tests/daemon/net/test_connection_server.py::test_established_connection_gives_way_only_after_long_idleness",
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
        file="daemon/net/accepting.py",
        text="places.count(source) >= limits.of_address(address)",
        becomes="places.count(source) < 0",
        found_by="tests/daemon/net/test_connection_server.py::test_one_address_has_no_more_connections_than_its_limit",
    ),
    Mutant(
        name="one address may take every connection of the metrics port",
        file="daemon/net/connection_limits.py",
        text="min(settings.max_connections_per_ip, own_per_address_max)",
        becomes="settings.max_connections_per_ip",
        found_by="tests/daemon/test_decision_servers.py::test_one_address_cannot_take_all_connections_of_the_metrics_port",
    ),
    Mutant(
        name="a stranger whose request was answered is safe from eviction",
        file="daemon/net/open_connections.py",
        text="        if not is_known:\n",
        becomes="        if not connection:\n",
        found_by="tests/daemon/test_decision_servers.py::test_slow_pollers_keep_nobody_out",
    ),
    Mutant(
        name="callers of a port that asks for no credentials are safe from eviction",
        file="daemon/decision_servers.py",
        text="lambda: not callers.trusts_all,",
        becomes="lambda: True,",
        found_by="tests/daemon/test_decision_servers.py"
        "::test_answer_that_needs_no_credentials_keeps_no_place",
    ),
    Mutant(
        name="clients of a Kafka listener without log-in are safe from eviction",
        file="daemon/kafka/listener.py",
        text="establish(self._connection, is_known=False)",
        becomes="establish(self._connection, is_known=True)",
        found_by="tests/daemon/kafka/test_listener_limits.py::test_client_without_log_in_gives_way",
    ),
    Mutant(
        name="callers of a decision stream without tokens are safe from eviction",
        file="daemon/decisions/stream_server.py",
        text="is_known = not self._server.callers.trusts_all",
        becomes="is_known = True",
        found_by="tests/daemon/decisions/test_stream_server_connections.py"
        "::test_callers_without_credentials_give_way",
    ),
    Mutant(
        name="a network with many connections takes the places of others",
        file="daemon/net/open_connections.py",
        text="most >= len(self._strangers.get(network, ())):",
        becomes="most >= 0:",
        found_by="tests/daemon/net/test_open_connections.py::test_no_network_loses_a_place_to_one_with_more",
    ),
    Mutant(
        name="each address of one IPv6 network counts as a network",
        file="daemon/net/connection_limits.py",
        text='return ":".join([*text.split(":")[:4], zone])',
        becomes="return address",
        found_by="tests/daemon/net/test_open_connections.py::test_network_of_an_address",
    ),
    Mutant(
        name="arrivals of one network come before all others",
        file="daemon/net/arrivals.py",
        text="            self._networks[network] = waiting  # behind all others\n",
        becomes="            self._networks[network] = waiting\n"
        "            self._networks.move_to_end(network, last=False)\n",
        found_by="tests/daemon/net/test_arrivals.py"
        "::test_networks_take_turns_and_their_newest_comes_first",
    ),
    Mutant(
        name="the oldest arrival of a network comes first",
        file="daemon/net/arrivals.py",
        text="arrival, _ = waiting.popitem()",
        becomes="arrival = next(iter(waiting)); del waiting[arrival]",
        found_by="tests/daemon/net/test_arrivals.py"
        "::test_networks_take_turns_and_their_newest_comes_first",
    ),
    Mutant(
        name="a connection that arrives after a pause of the process is late at once",
        file="daemon/net/accepting.py",
        text="now = max(server.next_sweep, trio.current_time())",
        becomes="now = server.next_sweep",
        found_by="tests/daemon/net/test_arrivals.py"
        "::test_connection_after_a_pause_of_the_process_is_not_late",
    ),
    Mutant(
        name="a part of a request is served before whole ones",
        file="daemon/net/connection_server.py",
        text="Opening.READY if self.holds_request(opening) else Opening.DOUBTFUL",
        becomes="Opening.READY",
        found_by="tests/daemon/net/test_arrivals.py::test_whole_requests_come_before_parts",
    ),
    Mutant(
        name="an arrival stays doubtful when the rest of its request arrives",
        file="daemon/net/arrivals.py",
        text="            self._doubtful.add(arrival)\n            self._watch_for_more(arrival)\n",
        becomes="            self._doubtful.add(arrival)\n            self._forget(arrival)\n",
        found_by="tests/daemon/net/test_arrivals.py"
        "::test_arrival_is_doubtful_until_the_rest_of_its_request_has_arrived",
    ),
    Mutant(
        name="parts of requests begin as fast as whole ones",
        file="daemon/net/arrivals.py",
        text="            if queue is self._doubtful:\n                break",
        becomes="            if False:\n                break",
        found_by="tests/daemon/net/test_arrivals.py::test_only_a_few_arrivals_begin_in_one_turn",
    ),
    Mutant(
        name="one turn serves any number of arrivals",
        file="daemon/net/arrivals.py",
        text="for _ in range(STARTS_PER_TURN):",
        becomes="for _ in range(1000):",
        found_by="tests/daemon/net/test_arrivals.py::test_only_a_few_arrivals_begin_in_one_turn",
    ),
    Mutant(
        name="one turn accepts any number of connections",
        file="daemon/net/accepting.py",
        text="for _ in range(ACCEPTS_PER_TURN):",
        becomes="for _ in range(1000):",
        found_by="tests/daemon/net/test_arrivals.py"
        "::test_only_some_connections_are_accepted_in_one_turn",
    ),
    Mutant(
        name="a connection that is closed at once evicts another",
        file="daemon/net/accepting.py",
        text="None if has_ended(accepted) else ",
        becomes="",
        found_by="tests/daemon/net/test_arrivals.py"
        "::test_connection_that_is_closed_at_once_takes_nobodys_place",
    ),
    Mutant(
        name="a connection that breaks at its first bytes stops the port",
        file="daemon/net/arrivals.py",
        text="        except OSError:  # the peer may reset",
        becomes="        except TimeoutError:  # the peer may reset",
        found_by="tests/daemon/net/test_arrivals.py::test_broken_connection_ends_alone",
    ),
    Mutant(
        name="silent connections stay for ever",
        file="daemon/net/connection_server.py",
        text="            self._end_late_arrivals(now)\n",
        becomes="",
        found_by="tests/daemon/net/test_arrivals.py"
        "::test_silent_connection_ends_at_the_login_timeout",
    ),
    Mutant(
        name="connections above the rate are accepted at once",
        file="daemon/net/accepting.py",
        text="if pause > 0:",
        becomes="if pause < 0:",
        found_by="tests/daemon/net/test_connection_server.py::test_delayed_connections_are_served_one_after_another",
    ),
    Mutant(
        name="a quiet time allows any number of connections at once",
        file="daemon/net/creation_rate.py",
        text="min(self._tokens + added, float(self.per_second * self._burst_s))",
        becomes="self._tokens + added",
        found_by="tests/daemon/net/test_creation_rate.py::test_unused_part_of_the_rate_is_not_kept_longer_than_the_burst",
    ),
    Mutant(
        name="a listener ignores the rate of all listeners",
        file="daemon/net/creation_rate.py",
        text="max(self._own.reserve(now), self._shared.reserve(now))",
        becomes="self._own.reserve(now)",
        found_by="tests/daemon/net/test_creation_rate.py::test_listeners_share_one_limit",
    ),
    Mutant(
        name="a shutdown leaves a delayed connection open",
        file="daemon/net/accepting.py",
        text="                    await trio.aclose_forcefully(accepted)\n",
        becomes="                    pass\n",
        found_by="tests/daemon/net/test_connection_server.py::test_delayed_connection_is_closed_when_the_server_drains",
    ),
    Mutant(
        name="any user may use a connection that is reserved for super users",
        file="daemon/net/connection_server.py",
        text="if not limits.reserved or may_use_reserve:",
        becomes="if limits:",
        found_by="tests/daemon/kafka/test_listener_limits.py::test_super_user_logs_in_on_a_reserved_place",
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
        found_by="tests/daemon/net/test_connection_server.py::test_failed_accept_is_retried_and_logged_once_a_minute",
    ),
    Mutant(
        name="an incomplete log-in reserves memory",
        file="daemon/net/connection.py",
        text="size = FREE_BYTES - bytes_left if self.is_confined else RECEIVE_BYTES",
        becomes="size = RECEIVE_BYTES",
        found_by="tests/daemon/test_overload.py::test_hello_above_its_limit_is_refused_and_uses_only_free_bytes",
    ),
    Mutant(
        name="connections use the descriptors of the log",
        file="daemon/net/fd_limit.py",
        text="max(most - OTHER_FILES_MIN, most // 4)",
        becomes="most",
        found_by="tests/daemon/net/test_fd_limit.py::test_connections_are_capped_by_too_low_a_hard_limit",
    ),
    Mutant(
        name="a drain ends connections whose request has arrived at the selector",
        file="daemon/net/connection_server.py",
        text="        while self.selector is not None and self.selector.is_ready:\n"
        "            await trio.lowlevel.checkpoint()\n",
        becomes="",
        found_by="tests/daemon/http/test_at_once.py::test_drain_answers_what_has_arrived_at_the_selector",
    ),
    Mutant(
        name="the selector keeps the descriptors of connections that have ended",
        file="daemon/net/selector.py",
        text="        def abort(_: object) -> trio.lowlevel.Abort:\n"
        "            self._forget(descriptor)\n",
        becomes="        def abort(_: object) -> trio.lowlevel.Abort:\n",
        found_by="tests/daemon/net/test_selector.py::test_cancelled_wait_reads_nothing",
    ),
    Mutant(
        name="connections that never pause come before the others",
        file="daemon/net/selector.py",
        text="            events = self._events\n",
        becomes="            events = list(self._events)\n            self._events = []\n",
        found_by="tests/daemon/net/test_selector.py"
        "::test_connections_that_never_pause_do_not_keep_others_waiting",
    ),
    Mutant(
        name="the sweep treats a live answer as an idle connection",
        file="daemon/net/connection_server.py",
        text="elif not is_open or connection.phase in EXEMPT:",
        becomes="elif connection.phase is Phase.ANSWERING:",
        found_by="tests/daemon/http/test_streamed_answers.py"
        "::test_live_answer_outlives_every_timeout",
    ),
    Mutant(
        name="a client that reads nothing keeps its streamed answer",
        file="daemon/http/body_writer.py",
        text="trio.move_on_after(self._response.stall_seconds)",
        becomes="trio.move_on_after(1e9)",
        found_by="tests/daemon/http/test_streamed_answers.py"
        "::test_slow_reader_is_dropped_and_holds_one_part",
    ),
    Mutant(
        name="parts of streamed answers take memory that nobody counts",
        file="daemon/http/body_writer.py",
        text="        connection.hold_answer(len(data))\n",
        found_by="tests/daemon/http/test_streamed_answers.py"
        "::test_part_without_memory_ends_its_connection",
    ),
    Mutant(
        name="a drain cuts off live answers",
        file="daemon/http/body_writer.py",
        text="        for writer in self._writers:\n            writer.end_if_live()\n",
        found_by="tests/daemon/http/test_streamed_answers.py::test_drain_completes_a_live_answer",
    ),
    Mutant(
        name="a live answer goes on after its client has gone",
        file="daemon/http/body_writer.py",
        text="            nursery.start_soon(self._end_with_peer)\n",
        found_by="tests/daemon/http/test_streamed_answers.py"
        "::test_lost_peer_ends_a_live_answer_that_has_nothing_to_send",
    ),
)
