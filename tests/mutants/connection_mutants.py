"""Mutants of connections and TLS: who may connect, and how much one caller gets."""

from typing import Final

from tests.mutants.mutant import Mutant

CONNECTION_MUTANTS: Final = {
    # Connections
    "connections are unbounded": Mutant(
        file="daemon/net/accepting.py",
        text="slots.taken < limits.unreserved_max",
        becomes="slots.taken >= 0",
        found_by="tests/daemon/kafka/test_listener_limits.py::test_connections_above_the_limit_are_closed",
    ),
    "silent connections block new ones": Mutant(
        file="daemon/net/accepting.py",
        text="                and slots.evict(newcomer.network)\n",
        becomes="                and limits is None\n",
        found_by="tests/daemon/net/test_connection_server.py::test_newcomer_replaces_the_oldest_silent_connection",
    ),
    "clients that do not read block new ones before their log-in": Mutant(
        file="daemon/net/connection.py",
        text="self.confined_to is not None and self.phase is Phase.SENDING",
        becomes="self.confined_to is not None and self.phase is Phase.IDLE",
        found_by="tests/daemon/kafka/test_listener_limits.py::test_unauthenticated_client_that_does_not_read_gives_way",
    ),
    "one address may have any number of connections": Mutant(
        file="daemon/net/accepting.py",
        text="slots.count(source) >= limits.of_address(address)",
        becomes="slots.count(source) < 0",
        found_by="tests/daemon/net/test_open_connections.py::test_one_address_has_no_more_connections_than_its_limit",
    ),
    "a network with many connections takes the slots of others": Mutant(
        file="daemon/net/open_connections.py",
        text="most >= len(self._strangers.get(network, ())):",
        becomes="most >= 0:",
        found_by="tests/daemon/net/test_open_connections.py::test_no_network_yields_to_a_larger",
    ),
    "silent connections stay for ever": Mutant(
        file="daemon/net/connection_server.py",
        text="            self._end_late_arrivals(now)\n",
        found_by="tests/daemon/net/test_arrivals.py::test_silent_connection_ends_at_the_login_timeout",
    ),
    "connections above the rate are accepted at once": Mutant(
        file="daemon/net/accepting.py",
        text="if pause > 0:",
        becomes="if pause < 0:",
        found_by="tests/daemon/net/test_connection_server.py::test_delayed_connections_are_served_one_after_another",
    ),
    "any user may use a connection that is reserved for super users": Mutant(
        file="daemon/net/connection_server.py",
        text="if not limits.reserved or may_use_reserve:",
        becomes="if limits:",
        found_by="tests/daemon/kafka/test_listener_limits.py::test_super_user_logs_in_on_a_reserved_place",
    ),
    "a fault of a connection ends the daemon": Mutant(
        file="daemon/net/connection_server.py",
        text="        except Exception:\n",
        becomes="        except ValueError:\n",
        found_by="tests/daemon/net/test_connection_server.py::test_fault_of_any_kind_ends_its_own_connection_only",
    ),
    "an error of accept ends the daemon": Mutant(
        file="daemon/net/accepting.py",
        text="except OSError as error:",
        becomes="except TimeoutError as error:",
        found_by="tests/daemon/net/test_connection_server.py::test_failed_accept_is_retried_and_logged_once_a_minute",
    ),
    "a single request waits for the slices of a whole turn": Mutant(
        file="daemon/net/selector.py",
        text="current_turns().answering_between(self._serve)",
        becomes="current_turns().answering_between(id)",
        found_by="tests/daemon/net/test_selector.py::test_request_is_answered_between_slices",
    ),
    "single requests take all the time between slices": Mutant(
        file="daemon/net/turns.py",
        text="if now_ns - self._answered_until_ns >= BETWEEN_NS:",
        becomes="if now_ns >= 0:",
        found_by="tests/daemon/net/test_turns.py::test_others_are_answered_before_slices_once_in_a_while",
    ),
    "a slice begins without a look at single requests": Mutant(
        file="daemon/net/turns.py",
        text="        self._begun += 1\n        self._answer_others()\n",
        becomes="        self._begun += 1\n",
        found_by="tests/daemon/net/test_turns.py::test_others_are_answered_before_slices_once_in_a_while",
    ),
    "a turn of the loop answers several TLS hellos": Mutant(
        file="daemon/net/arrivals.py",
        text="if not is_served or queue is self._doubtful:",
        becomes="if queue is self._doubtful:",
        found_by="tests/daemon/net/test_arrivals.py::test_only_a_few_arrivals_begin_in_one_turn",
    ),
    "an incomplete log-in reserves memory": Mutant(
        file="daemon/net/connection.py",
        text="size = RECEIVE_BYTES if self.confined_to is None else self.confined_to - bytes_left",
        becomes="size = RECEIVE_BYTES",
        found_by="tests/daemon/test_overload.py::test_hello_above_its_limit_is_refused_and_uses_free_bytes",
    ),
    "connections use the descriptors of the log": Mutant(
        file="daemon/net/fd_limit.py",
        text="max(most - OTHER_FILES_MIN, most // 4)",
        becomes="most",
        found_by="tests/daemon/net/test_resource_limits.py::test_connections_are_capped_by_too_low_a_hard_limit",
    ),
    "parts of streamed answers take memory that nobody counts": Mutant(
        file="daemon/http/body_writer.py",
        text="        connection.hold_answer(len(data))\n",
        found_by="tests/daemon/http/test_streamed_answers.py::test_part_without_memory_ends_its_connection",
    ),
    # TLS
    "a resumed session outlives the client's certificate": Mutant(
        file="tls/server.py",
        text="if not identity.is_valid(time.time()):",
        becomes="if identity.not_after is None:",
        found_by="tests/tls/test_server.py::test_resumed_session_does_not_outlive_the_certificate",
    ),
    "new session keys bring back replaced certificates": Mutant(
        file="daemon/certificates.py",
        text="if self._loaded[name] is before[name]:",
        becomes="if name:",
        found_by="tests/daemon/test_certificates.py::test_renewal_keeps_certificates_that_were_replaced_meanwhile",
    ),
    "a CA that leaves the truststore is not noticed": Mutant(
        file="tls/server.py",
        text="prepared.trusted - self.current.trusted",
        becomes="self.current.trusted - prepared.trusted",
        found_by="tests/tls/test_server.py::test_clients_are_identified_again_only_for_lost_cas_and_new_rules",
    ),
    "a CA that leaves the truststore during a handshake is still trusted": Mutant(
        file="tls/server.py",
        text="if self._identifies_otherwise(settings, prepared):",
        becomes="if settings is None:",
        found_by="tests/tls/test_server.py::test_truststore_replaced_during_a_handshake_counts",
    ),
    "a credential that is replaced during a log-in still counts": Mutant(
        file="daemon/kafka/login/sasl_scram.py",
        text="if challenge.candidate != self._look_up(challenge.user, self._mechanism):",
        becomes="if challenge is None:",
        found_by="tests/daemon/kafka/login/test_sasl_scram.py::test_credential_replaced_during_the_log_in_is_invalid",
    ),
    "any number of handshakes begins at once": Mutant(
        file="daemon/net/handshakes.py",
        text="if self.started < HANDSHAKES_STARTED_MAX:",
        becomes="if self.started >= 0:",
        found_by="tests/daemon/net/test_arrivals.py::test_no_handshake_begins_while_many_wait_for_threads",
    ),
    "a flood of hellos costs a signature for each": Mutant(
        file="daemon/net/handshakes.py",
        text="self._unanswered > UNANSWERED_MAX",
        becomes="self._unanswered < 0",
        found_by="tests/daemon/net/test_arrivals.py::test_in_a_flood_a_client_answers_before_a_key_exchange",
    ),
    "a costly key exchange runs on the event loop": Mutant(
        file="tls/client_hello.py",
        text="_QUICK_GROUPS.issuperset(shares)",
        becomes="bool(_QUICK_GROUPS)",
        found_by="tests/tls/test_client_hello.py::test_hello_is_answered_without_a_thread_if_that_is_quick",
    ),
    "a second hello is not checked": Mutant(
        file="tls/first_hello.py",
        text="begun.is_retried = not is_last_answer(answer)",
        becomes="begun.is_retried = is_retried",
        found_by="tests/tls/test_client_hello.py::test_large_key_share_after_a_retry_without_a_task_is_refused",
    ),
    "client certificates are verified on the event loop": Mutant(
        file="tls/server.py",
        text='if settings.client_auth is ClientAuth.NONE and "TLSv1.3" in settings.protocols:',
        becomes='if "TLSv1.3" in settings.protocols:',
        found_by="tests/tls/test_server.py::test_only_quick_steps_run_on_the_event_loop",
    ),
    "a retried handshake asks for no client certificate": Mutant(
        file="tls/context.py",
        text="    context.set_ecdh_curve(RETRY_CURVE)\n",
        becomes=(
            "    context.set_ecdh_curve(RETRY_CURVE)\n    context.verify_mode = ssl.CERT_NONE\n"
        ),
        found_by="tests/tls/test_server.py::test_retried_client_is_identified_all_the_same",
    ),
    "records without data have no limit": Mutant(
        file="tls/stream.py",
        text="if records_without_data > RECORDS_WITHOUT_DATA_MAX:",
        becomes="if records_without_data is None:",
        found_by="tests/tls/test_stream.py::test_flood_of_records_without_data_ends_the_connection",
    ),
    "a client may demand keys of 8192 bits": Mutant(
        file="tls/client_hello.py",
        text="_LARGE_FIELDS: Final = frozenset(range(0x0101, 0x0200))",
        becomes="_LARGE_FIELDS: Final = frozenset(range(0x0200, 0x0200))",
        found_by="tests/tls/test_client_hello.py::test_large_key_share_reaches_no_thread",
    ),
    "a ClientHello of any size is accepted": Mutant(
        file="tls/client_hello.py",
        text="if size > CLIENT_HELLO_BYTES_MAX:",
        becomes="if size is None:",
        found_by="tests/tls/test_client_hello.py::test_costly_message_is_refused",
    ),
    "clients need no certificate although one is required": Mutant(
        file="tls/context.py",
        text="ClientAuth.REQUIRED: ssl.CERT_REQUIRED",
        becomes="ClientAuth.REQUIRED: ssl.CERT_OPTIONAL",
        found_by="tests/tls/test_stream.py::test_client_is_refused_by_name",
    ),
    "ssl.enabled.protocols has no effect": Mutant(
        file="tls/context.py",
        text="context.minimum_version, context.maximum_version = min(versions), max(versions)",
        becomes="context.minimum_version = ssl.TLSVersion.TLSv1_2",
        found_by="tests/tls/test_stream.py::test_only_enabled_protocols_are_spoken",
    ),
    "a listener with TLS speaks to clients in clear": Mutant(
        file="daemon/net/connection_server.py",
        text="await self._handshakes.secure(connection)",
        becomes="pass",
        found_by="tests/end_to_end/test_tls.py::test_client_without_tls_gets_an_alert",
    ),
    "client certificates are asked for without a truststore": Mutant(
        file="config/tls.py",
        text="settings.client_auth is not ClientAuth.NONE and settings.truststore is None",
        becomes="settings.client_auth is None",
        found_by="tests/config/test_endpoints.py::test_contradictory_settings_are_rejected",
    ),
    "TLS without credentials opens a port to others": Mutant(
        file="config/tls_rules.py",
        text="(endpoint.is_tls and _has_client_auth(keys))",
        becomes="endpoint.is_tls",
        found_by="tests/config/test_endpoints.py::test_encryption_alone_opens_no_port_to_others",
    ),
    "a certificate admits a caller with a wrong token": Mutant(
        file="daemon/decisions/callers.py",
        text="return None if found is None else _Known(",
        becomes="return _Known(self, certified) if found is None and certified else "
        "None if found is None else _Known(",
        found_by="tests/daemon/decisions/test_callers.py::test_wrong_token_is_refused_despite_a_certificate",
    ),
    "callers without credentials are trusted although TLS asks for certificates": Mutant(
        file="daemon/decisions/callers.py",
        text="if tokens_file is None and not has_client_auth else None",
        becomes="if tokens_file is None else None",
        found_by="tests/end_to_end/test_tls.py::test_client_certificates_close_the_unix_socket_to_callers_without_credentials",
    ),
    "the admin port answers everyone on a non-loopback address": Mutant(
        file="daemon/servers.py",
        text="handler = require_credentials(handler, parts.callers)",
        becomes="pass",
        found_by="tests/end_to_end/test_tls.py::test_admin_port_on_other_addresses_needs_credentials",
    ),
    "a certificate's rights outlive it on open connections": Mutant(
        file="daemon/net/connection_server.py",
        text="if is_open and connection.has_expired:",
        becomes="if is_open and connection.expires_at is None:",
        found_by="tests/daemon/net/test_connection_server.py::test_identity_ends_with_its_certificate",
    ),
    "a certificate that has expired identifies a Kafka request": Mutant(
        file="daemon/kafka/listener.py",
        text="        _ = self._connection.certified  # raises once the certificate has expired\n",
        found_by="tests/daemon/kafka/test_listener.py::test_certificate_that_has_expired_identifies_no_further_request",
    ),
    "a certificate that has expired identifies a frame of the stream": Mutant(
        file="daemon/decisions/stream_server.py",
        text="admission.is_late or connection.has_expired",
        becomes="admission.is_late",
        found_by="tests/daemon/decisions/test_stream_server_connections.py::test_frame_after_the_certificate_expired_is_not_answered",
    ),
    "a late frame of the stream is answered": Mutant(
        file="daemon/decisions/stream_server.py",
        text="admission.is_late or connection.has_expired",
        becomes="connection.has_expired",
        found_by="tests/daemon/test_overload.py::test_stream_refuses_pipelined_frames_under_overload",
    ),
    "a certificate that has expired identifies an HTTP request": Mutant(
        file="daemon/http/server.py",
        text="        if connection.has_expired:  #",
        becomes="        if False:  #",
        found_by="tests/daemon/http/test_server.py::test_client_that_never_pauses_ends_with_its_certificate",
    ),
    "a frame of the stream waits for a task": Mutant(
        file="daemon/decisions/stream_server.py",
        text="if not (may_answer and is_frame(data)):",
        becomes="if data:",
        found_by="tests/daemon/decisions/test_stream_at_once.py::test_single_frame_needs_no_task",
    ),
}
