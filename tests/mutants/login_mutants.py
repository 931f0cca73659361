"""Mutants of SCRAM log-ins and of sessions that end."""

from __future__ import annotations

from typing import Final

from tests.mutants.mutant import Mutant

_SCRAM: Final = "tests/daemon/kafka/login/test_sasl_scram.py::"
_CREDENTIALS: Final = "tests/daemon/kafka/login/test_login_credentials.py::"
_EXCHANGE: Final = "tests/daemon/kafka/login/test_authentication.py::"
_LISTENER: Final = "tests/daemon/kafka/test_listener_sasl.py::"

LOGIN_MUTANTS: Final = (
    Mutant(
        name="a SCRAM proof is not compared",
        file="daemon/kafka/login/sasl_scram.py",
        text="if not (proves and challenge.candidate.is_known):",
        becomes="if not challenge.candidate.is_known:",
        found_by=f"{_SCRAM}test_wrong_final_message_fails",
    ),
    Mutant(
        name="a client that knows the keys of a made-up SCRAM credential logs in",
        file="daemon/kafka/login/sasl_scram.py",
        text="if not (proves and challenge.candidate.is_known):",
        becomes="if not proves:",
        found_by=f"{_CREDENTIALS}test_nobody_logs_in_with_a_made_up_credential",
    ),
    Mutant(
        name="a recorded SCRAM log-in can be repeated",
        file="daemon/kafka/login/sasl_scram.py",
        text='        nonce = match["nonce"] + self._nonce\n',
        becomes='        nonce = match["nonce"]\n',
        found_by=f"{_SCRAM}test_proof_of_another_login_fails",
    ),
    Mutant(
        name="one user logs in as another with SCRAM",
        file="daemon/kafka/login/sasl_scram.py",
        text="_decode_name(authorization_id) != user",
        becomes="not authorization_id",
        found_by=f"{_SCRAM}test_unsupported_request_is_refused_by_name",
    ),
    Mutant(
        name="a SCRAM challenge reveals whether the user exists",
        file="daemon/kafka/login/login_credentials.py",
        text='b"salt of " + login',
        becomes='b"salt of "',
        found_by=f"{_CREDENTIALS}test_unknown_users_are_challenged_like_known_ones",
    ),
    Mutant(
        name="a SCRAM credential of another mechanism is used",
        file="daemon/kafka/login/login_credentials.py",
        text="        and len(credential.stored_key) == size\n",
        found_by=f"{_CREDENTIALS}test_unusable_credential_counts_as_missing",
    ),
    Mutant(
        name="credentials are used before they are loaded",
        file="daemon/kafka/listener.py",
        text="            await credentials.wait_until_loaded()\n",
        found_by=f"{_LISTENER}test_scram_log_in_waits_until_the_credentials_are_loaded",
    ),
    Mutant(
        name="a client that waits for credentials cannot be replaced by a new connection",
        file="daemon/kafka/listener.py",
        text="            await credentials.wait_until_loaded()\n",
        becomes=(
            "            self._connection.enter(Phase.ANSWERING)\n"
            "            await credentials.wait_until_loaded()\n"
        ),
        found_by=f"{_LISTENER}test_client_that_waits_for_credentials_gives_way",
    ),
    Mutant(
        name="a connection changes its principal",
        file="daemon/kafka/login/authentication.py",
        text="if self._principal not in (None, principal):",
        becomes="if self._principal == principal + principal:",
        found_by=f"{_EXCHANGE}test_reauthentication_requires_the_same_user",
    ),
    Mutant(
        name="a connection changes its mechanism",
        file="daemon/kafka/login/authentication.py",
        text="if self.is_reauthentication and self.mechanism != self._session_mechanism:",
        becomes="if self.is_reauthentication and self.mechanism is None:",
        found_by=f"{_EXCHANGE}test_reauthentication_requires_the_same_mechanism",
    ),
    Mutant(
        name="requests are served after the end of a session",
        file="daemon/kafka/listener.py",
        text="            self._sasl.check_session(self._listener.clock())\n",
        becomes="            self._sasl.check_session(0)\n",
        found_by=f"{_LISTENER}test_request_after_the_session_closes_the_connection",
    ),
    Mutant(
        name="a client that logs in again sends tokens of any size",
        file="daemon/kafka/login/authentication.py",
        text="if len(token) > LOGIN_BYTES_MAX:",
        becomes="if not token:",
        found_by=f"{_EXCHANGE}test_oversized_token_fails_the_login",
    ),
    Mutant(
        name="a SCRAM log-in of an unknown user takes less work",
        file="daemon/kafka/login/sasl_scram.py",
        text="        hash_name = self._mechanism.hash_name\n        conversation",
        becomes="        hash_name = self._mechanism.hash_name\n"
        "        if not challenge.candidate.is_known:\n"
        '            raise InvalidCredentialsError("unknown user or wrong password")\n'
        "        conversation",
        found_by=f"{_CREDENTIALS}test_unknown_user_costs_the_work_of_a_known_one",
    ),
    Mutant(
        name="the time of a refusal reveals which ids of tokens exist",
        file="config/tokens.py",
        text="        digest = _NO_DIGEST if entry is None else entry.digest\n",
        becomes="        if not entry:\n            return None\n        digest = entry.digest\n",
        found_by="tests/config/test_tokens.py::test_unknown_id_costs_the_work_of_a_known_one",
    ),
    Mutant(
        name="a look-up of a known SCRAM user takes more work",
        file="daemon/kafka/login/login_credentials.py",
        text="        is_usable = _is_usable(made_up if known is None else known, mechanism)\n",
        becomes="        is_usable = known is not None and _is_usable(known, mechanism)\n",
        found_by=f"{_CREDENTIALS}test_unknown_user_costs_the_work_of_a_known_one",
    ),
)
