"""Mutants of TLS: who is let in, what is encrypted, and what may hold the event loop."""

from __future__ import annotations

from typing import Final

from tests.mutants.mutant import Mutant

TLS_MUTANTS: Final = (
    Mutant(
        name="a resumed session outlives the client's certificate",
        file="tls/server.py",
        text="if not identity.is_valid(time.time()):",
        becomes="if identity.not_after is None:",
        found_by="tests/tls/test_server.py::test_resumed_session_does_not_outlive_the_certificate",
    ),
    Mutant(
        name="a CA that leaves the truststore is not noticed",
        file="tls/server.py",
        text="prepared.trusted - self.current.trusted",
        becomes="self.current.trusted - prepared.trusted",
        found_by="tests/tls/test_server.py::test_clients_are_identified_again_only_for_lost_cas_and_new_rules",
    ),
    Mutant(
        name="a CA that leaves the truststore during a handshake is still trusted",
        file="tls/server.py",
        text="if self._identifies_otherwise(settings, prepared):",
        becomes="if settings is None:",
        found_by="tests/tls/test_server.py::test_truststore_replaced_during_a_handshake_counts",
    ),
    Mutant(
        name="a handshake holds the event loop",
        file="tls/stream.py",
        text="await trio.to_thread.run_sync(self._step, limiter=_HANDSHAKES)",
        becomes="self._step()",
        found_by="tests/tls/test_stream.py::test_handshake_runs_outside_the_event_loop",
    ),
    Mutant(
        name="a step of a handshake leaves a cycle of objects",
        file="tls/stream.py",
        text="return error.with_traceback(None)",
        becomes="return error",
        found_by="tests/tls/test_stream.py::test_handshake_leaves_no_cycle",
    ),
    Mutant(
        name="records that have arrived are received without a turn of other tasks",
        file="tls/stream.py",
        text="if not has_waited:",
        becomes="if has_waited is None:",
        found_by="tests/tls/test_stream.py::test_buffered_data_is_not_received_without_a_turn_of_others",
    ),
    Mutant(
        name="a client that never pauses outlives its certificate",
        file="daemon/net/connection.py",
        text="        elif self.ending is None:\n            self.ending = ending",
        becomes="",
        found_by=(
            "tests/daemon/kafka/test_listener.py"
            "::test_client_that_never_pauses_ends_with_its_certificate"
        ),
    ),
    Mutant(
        name="a credential that is replaced during a log-in still counts",
        file="daemon/kafka/login/sasl_scram.py",
        text="if challenge.candidate != self._look_up(challenge.user, self._mechanism):",
        becomes="if challenge is None:",
        found_by=(
            "tests/daemon/kafka/login/test_sasl_scram.py"
            "::test_credential_replaced_during_the_log_in_is_invalid"
        ),
    ),
    Mutant(
        name="a handshake that waits for a thread is evicted",
        file="daemon/net/handshakes.py",
        text="        connection.phase = Phase.ANSWERING\n        self.started += 1",
        becomes="        self.started += 1",
        found_by=(
            "tests/daemon/net/test_connection_server.py"
            "::test_handshakes_that_wait_for_a_thread_are_not_evicted"
        ),
    ),
    Mutant(
        name="newcomers evict clients although too many handshakes wait",
        file="daemon/net/accepting.py",
        text="                server.handshakes_started < limits.unreserved_max / 2\n"
        "                and ",
        becomes="                ",
        found_by=(
            "tests/daemon/net/test_connection_server.py"
            "::test_handshakes_that_wait_for_a_thread_are_not_evicted"
        ),
    ),
    Mutant(
        name="any number of handshakes begins at once",
        file="daemon/net/handshakes.py",
        text="if self.started < HANDSHAKES_STARTED_MAX:",
        becomes="if self.started >= 0:",
        found_by=(
            "tests/daemon/net/test_arrivals.py"
            "::test_no_handshake_begins_while_many_wait_for_threads"
        ),
    ),
    Mutant(
        name="a handshake costs a thread's time before its client has answered once",
        file="daemon/net/handshakes.py",
        text="self._server.next_sweep >= self._pressed_until",
        becomes="self._server.next_sweep >= 0",
        found_by=(
            "tests/daemon/net/test_arrivals.py"
            "::test_under_pressure_a_client_answers_before_a_thread_works"
        ),
    ),
    Mutant(
        name="clients that prove nothing come before those that have answered",
        file="daemon/net/arrivals.py",
        text="queue = self._ready or self._doubtful",
        becomes="queue = self._doubtful or self._ready",
        found_by=(
            "tests/daemon/net/test_arrivals.py::test_proven_arrivals_come_before_doubtful_ones"
        ),
    ),
    Mutant(
        name="a part of a hello gets a task",
        file="daemon/net/handshakes.py",
        text="if not is_whole_record(opening):",
        becomes="if not opening:",
        found_by=(
            "tests/daemon/net/test_arrivals.py"
            "::test_under_pressure_a_client_answers_before_a_thread_works"
        ),
    ),
    Mutant(
        name="a retried handshake asks for no client certificate",
        file="tls/context.py",
        text="    context.set_ecdh_curve(RETRY_CURVE)\n",
        becomes="    context.set_ecdh_curve(RETRY_CURVE)\n"
        "    context.verify_mode = ssl.CERT_NONE\n",
        found_by="tests/tls/test_server.py::test_retried_client_is_identified_all_the_same",
    ),
    Mutant(
        name="records without data have no limit",
        file="tls/stream.py",
        text="if records_without_data > RECORDS_WITHOUT_DATA_MAX:",
        becomes="if records_without_data is None:",
        found_by="tests/tls/test_stream.py::test_flood_of_records_without_data_ends_the_connection",
    ),
    Mutant(
        name="a turn decrypts all records that have arrived",
        file="tls/stream.py",
        text="        self._incoming.write(unread[:size])",
        becomes="        size = len(unread)\n        self._incoming.write(unread[:size])",
        found_by="tests/tls/test_stream.py::test_each_key_update_takes_a_separate_turn",
    ),
    Mutant(
        name="records that arrive with the end of the handshake are decrypted in one turn",
        file="tls/stream.py",
        text="self._unread[:0] = self._incoming.read()",
        becomes='self._unread[:0] = b""',
        found_by=(
            "tests/tls/test_stream.py::"
            "test_records_sent_with_the_end_of_the_handshake_take_turns_too"
        ),
    ),
    Mutant(
        name="a client may demand keys of 8192 bits",
        file="tls/client_hello.py",
        text="_LARGE_FIELDS: Final = range(0x0101, 0x0200)",
        becomes="_LARGE_FIELDS: Final = range(0x0200, 0x0200)",
        found_by="tests/tls/test_client_hello.py::test_large_key_share_reaches_no_thread",
    ),
    Mutant(
        name="a client may demand keys of 8192 bits after a retry",
        file="tls/client_hello.py",
        text="and records[_RANDOM] != _RETRY",
        becomes='and records[_RANDOM] != b""',
        found_by=(
            "tests/tls/test_client_hello.py::test_large_key_share_after_a_retry_reaches_no_thread"
        ),
    ),
    Mutant(
        name="a ClientHello of any size is accepted",
        file="tls/client_hello.py",
        text="if size > CLIENT_HELLO_BYTES_MAX:",
        becomes="if size is None:",
        found_by="tests/tls/test_client_hello.py::test_costly_message_is_refused",
    ),
    Mutant(
        name="clients need no certificate although one is required",
        file="tls/context.py",
        text="ClientAuth.REQUIRED: ssl.CERT_REQUIRED",
        becomes="ClientAuth.REQUIRED: ssl.CERT_OPTIONAL",
        found_by="tests/tls/test_stream.py::test_client_is_refused_by_name",
    ),
    Mutant(
        name="ssl.enabled.protocols has no effect",
        file="tls/context.py",
        text="context.minimum_version, context.maximum_version = min(versions), max(versions)",
        becomes="context.minimum_version = ssl.TLSVersion.TLSv1_2",
        found_by="tests/tls/test_stream.py::test_only_enabled_protocols_are_spoken",
    ),
    Mutant(
        name="a key that does not fit its certificate is accepted",
        file="tls/material.py",
        text="if not _fits(chain[0], loaded.public_key()):",
        becomes="if not chain:",
        found_by="tests/tls/test_material.py::test_unusable_keystore_is_rejected_without_secrets",
    ),
    Mutant(
        name="a listener with TLS speaks to clients in clear",
        file="daemon/net/connection_server.py",
        text="await self._handshakes.secure(connection)",
        becomes="pass",
        found_by="tests/end_to_end/test_tls.py::test_client_without_tls_gets_an_alert",
    ),
    Mutant(
        name="client certificates are asked for without a truststore",
        file="config/tls.py",
        text="settings.client_auth is not ClientAuth.NONE and settings.truststore is None",
        becomes="settings.client_auth is None",
        found_by="tests/config/test_tls.py::test_contradictory_settings_are_rejected",
    ),
    Mutant(
        name="the general ssl.client.auth applies to SASL_SSL",
        file="config/tls_rules.py",
        text="if protocol is SecurityProtocol.SASL_SSL and",
        becomes="if protocol is None and",
        found_by="tests/config/test_tls.py::test_general_client_auth_is_not_for_sasl_ssl",
    ),
    Mutant(
        name="TLS without credentials opens a port to others",
        file="config/tls_rules.py",
        text="(endpoint.is_tls and _has_client_auth(keys))",
        becomes="endpoint.is_tls",
        found_by="tests/config/test_tls.py::test_encryption_alone_opens_no_port_to_others",
    ),
    Mutant(
        name="a certificate admits a caller with a wrong token",
        file="daemon/decisions/callers.py",
        text="return None if found is None else _Known(self, ",
        becomes="return _Known(self, certified) if found is None and certified else None"
        " if found is None else _Known(self, ",
        found_by="tests/daemon/decisions/test_callers.py::test_wrong_token_is_refused_despite_a_certificate",
    ),
    Mutant(
        name="callers without credentials are trusted although TLS asks for certificates",
        file="daemon/decisions/callers.py",
        text="if tokens_file is None and not has_client_auth else None",
        becomes="if tokens_file is None else None",
        found_by="tests/end_to_end/test_tls.py::test_client_certificates_close_the_unix_socket_to_callers_without_credentials",
    ),
    Mutant(
        name="the admin port answers everyone on a non-loopback address",
        file="daemon/servers.py",
        text="handler = require_credentials(handler, parts.callers)",
        becomes="pass",
        found_by="tests/end_to_end/test_tls.py::test_admin_port_on_other_addresses_needs_credentials",
    ),
    Mutant(
        name="a certificate's rights outlive it on open connections",
        file="daemon/net/connection_server.py",
        text="if is_open and connection.has_expired:",
        becomes="if is_open and connection.expires_at is None:",
        found_by="tests/daemon/net/test_connection_server.py::test_identity_ends_with_its_certificate",
    ),
    Mutant(
        name="a server's certificate with an unknown version ends the program",
        file="tls/material.py",
        text="    x509.InvalidVersion,\n",
        found_by="tests/kafka_client/test_certificate_faults.py::test_certificate_of_an_unknown_version_is_explained_by_the_code_alone",
    ),
    Mutant(
        name="a certificate that has expired identifies a Kafka request",
        file="daemon/kafka/listener.py",
        text="        _ = self._connection.certified  # raises once the certificate has expired\n",
        found_by=(
            "tests/daemon/kafka/test_listener.py"
            "::test_certificate_that_has_expired_identifies_no_further_request"
        ),
    ),
    Mutant(
        name="a certificate that has expired identifies an HTTP request",
        file="daemon/http/server.py",
        text="        if connection.has_expired:  #",
        becomes="        if False:  #",
        found_by=(
            "tests/daemon/http/test_server.py"
            "::test_client_that_never_pauses_ends_with_its_certificate"
        ),
    ),
)
