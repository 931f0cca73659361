"""Mutants of OAUTHBEARER: which tokens log in, and what the issuer is asked."""

from typing import Final

from tests.mutants.mutant import Mutant

_LOGIN: Final = "daemon/kafka/login/"
_OAUTH: Final = "tests/daemon/kafka/login/test_sasl_oauth.py::"
_EXCHANGE: Final = "tests/daemon/kafka/login/test_authentication.py::"
_CONFIG: Final = "tests/config/test_sasl.py::"
_UNCHECKED: Final = '("verify_sub", "verify_jti"), False)'


def _unchecked(claim: str, test: str = "test_claims_that_do_not_fit_are_refused") -> Mutant:
    """Return a mutant that does not check a claim."""
    return Mutant(
        file=f"{_LOGIN}token_check.py",
        text=_UNCHECKED,
        becomes=f'("verify_sub", "verify_jti", "verify_{claim}"), False)',
        found_by=_OAUTH + test,
    )


TOKEN_MUTANTS: Final = {
    "a token needs no signature": Mutant(
        file=f"{_LOGIN}token_check.py",
        text='"verify_signature": key is not None',
        becomes='"verify_signature": False',
        found_by=f"{_OAUTH}test_token_of_another_key_is_refused",
    ),
    "a token's header has any size": Mutant(
        file=f"{_LOGIN}token_check.py",
        text="if len(header) > HEADER_CHARACTERS_MAX:",
        becomes="if header is None:",
        found_by=f"{_OAUTH}test_token_with_a_large_header_is_refused",
    ),
    "a token's user has half of a character": Mutant(
        file=f"{_LOGIN}token_check.py",
        text=" or _SURROGATE.search(user)",
        becomes="",
        found_by=f"{_OAUTH}test_claims_that_do_not_fit_are_refused",
    ),
    "a token of the daemon never ends": Mutant(
        file="kafka_client/oauth.py",
        text="return lifetime_s if math.isfinite(lifetime_s) else None",
        becomes="return lifetime_s",
        found_by="tests/kafka_client/test_oauth.py::test_token_without_an_end_is_refused",
    ),
    "a secret among the issuer's keys verifies tokens": Mutant(
        file=f"{_LOGIN}issuer_keys.py",
        text="        case _:\n            possible = ()",
        becomes='        case _:\n            possible = ("HS256",)',
        found_by=f"{_OAUTH}test_unusable_entry_of_the_keys_is_left_out",
    ),
    "a key verifies algorithms that it does not name": Mutant(
        file=f"{_LOGIN}issuer_keys.py",
        text="return possible if named is None else [each for each in possible if each == named]",
        becomes="return possible",
        found_by=f"{_OAUTH}test_key_verifies_its_own_algorithms_only",
    ),
    "a short key of the issuer verifies tokens": Mutant(
        file=f"{_LOGIN}issuer_keys.py",
        text="_RSA_BITS_MIN: Final = 2048",
        becomes="_RSA_BITS_MIN: Final = 512",
        found_by=f"{_OAUTH}test_unusable_entry_of_the_keys_is_left_out",
    ),
    "a key that the issuer has withdrawn verifies tokens": Mutant(
        file=f"{_LOGIN}issuer_keys.py",
        text="        self._keys = keys\n",
        becomes="        self._keys = keys or self._keys\n",
        found_by=f"{_OAUTH}test_withdrawn_keys_do_not_stay",
    ),
    "an expired token logs in": _unchecked("exp"),
    "a token logs in before it is valid": _unchecked("nbf"),
    "a token for another service logs in": _unchecked("aud"),
    "a token of another issuer logs in": _unchecked("iss"),
    "a token without an end logs in": Mutant(
        file=f"{_LOGIN}token_check.py",
        text='required = ["exp", "iat",',
        becomes='required = ["iat",',
        found_by=f"{_OAUTH}test_claims_that_do_not_fit_are_refused",
    ),
    "a signed token counts as an unsecured one": Mutant(
        file=f"{_LOGIN}token_check.py",
        text='if key is None and (header.get("alg") != "none" or not token.endswith(".")):',
        becomes="if header is None:",
        found_by=f"{_OAUTH}test_unsecured_token_logs_in_only_by_rules_without_keys",
    ),
    "a connection may try any number of tokens": Mutant(
        file=f"{_LOGIN}sasl_oauth.py",
        text="        if self._reason is not None:\n",
        becomes="        if self._reason is not None and message == _ACKNOWLEDGEMENT:\n",
        found_by=f"{_OAUTH}test_second_token_on_a_connection_is_refused",
    ),
    "unknown keys flood the issuer": Mutant(
        file=f"{_LOGIN}issuer_keys.py",
        text="if now < self._extra_allowed_at:",
        becomes="if now < 0:",
        found_by=f"{_OAUTH}test_unknown_keys_cause_one_reading_in_ten_seconds",
    ),
    "a session outlives its token": Mutant(
        file=f"{_LOGIN}authentication.py",
        text="            lengths_s.append(self._login.lifetime_s)\n",
        becomes="            pass\n",
        found_by=f"{_EXCHANGE}test_session_ends_with_its_token",
    ),
    "an unsecured token is forwarded as a proof": Mutant(
        file=f"{_LOGIN}authentication.py",
        text="return Authentication.TOKEN if is_secured else Authentication.NONE",
        becomes="return Authentication.TOKEN",
        found_by=f"{_EXCHANGE}test_unsecured_token_proves_nothing",
    ),
    "unsecured tokens are accepted from the network": Mutant(
        file="config/oauth.py",
        text="        if not is_loopback:\n",
        becomes="        if is_loopback is None:\n",
        found_by=f"{_CONFIG}test_unsecured_tokens_need_a_key_and_a_loopback_address",
    ),
    "the issuer's keys come over the network without TLS": Mutant(
        file="config/oauth_url.py",
        text='if scheme == "http" and not is_loopback_host(host):',
        becomes='if scheme == "":',
        found_by=f"{_CONFIG}test_other_places_of_documents_are_rejected",
    ),
    "a client uses a token after its end": Mutant(
        file="kafka_client/oauth.py",
        text="if token is None or not self._has_valid:",
        becomes="if token is None:",
        found_by="tests/kafka_client/test_oauth.py::test_token_after_its_end_is_not_used",
    ),
}
