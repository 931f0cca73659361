"""Mutants of settings: who may change them, and which secrets they keep."""

from typing import Final

from tests.mutants.mutant import Mutant

SETTING_MUTANTS: Final = {
    "a provider reads files outside of its allowed.paths": Mutant(
        file="config/providers.py",
        text="        if not any(os.path.commonpath",
        becomes="        if False and not any(os.path.commonpath",
        found_by="tests/config/test_providers.py::test_placeholders_give_what_kafka_gives",
    ),
    "a provider gives variables that its allow-list does not have": Mutant(
        file="config/providers.py",
        text="        if pattern is not None and pattern.fullmatch",
        becomes="        if False and pattern.fullmatch",
        found_by="tests/config/test_providers.py::test_placeholders_give_what_kafka_gives",
    ),
    "an error shows what a provider gave": Mutant(
        file="config/key_values.py",
        text="    if entry.is_provided and not",
        becomes="    if False and not",
        found_by="tests/config/test_providers.py::test_no_error_shows_the_text_of_a_provider",
    ),
    "a client may set a placeholder": Mutant(
        file="config/dynamic.py",
        text="    if has_placeholder(value):",
        becomes="    if False:",
        found_by="tests/config/test_providers.py::test_a_clients_placeholder_is_refused_and_never_resolved",
    ),
    "any client that may alter configs can reconfigure a plugged-in authorizer": Mutant(
        file="config/dynamic.py",
        text="return name in SUPER_USER_ONLY_KEYS or name in plugged\n",
        becomes="return name in SUPER_USER_ONLY_KEYS\n",
        found_by="tests/daemon/kafka/test_alter_configs.py::test_plugged_in_key_is_guarded_and_ends_with_a_reload",
    ),
    "any client that may alter configs can replace certificates": Mutant(
        file="daemon/kafka/config_change.py",
        text="        if guarded and not self._is_super_user():\n",
        becomes="        if guarded.keys() - self._store_keys and not self._is_super_user():\n",
        found_by="tests/daemon/kafka/test_store_configs.py::test_only_a_super_user_may_change_stores",
    ),
    "a change that waited for a reload is made by a former super user": Mutant(
        file="daemon/kafka/configs.py",
        text="lambda: was_super_user and self._is_super_user(context)",
        becomes="lambda: was_super_user",
        found_by="tests/daemon/kafka/test_store_configs.py::test_change_in_a_reload_needs_a_lasting_super_user",
    ),
    "a removed super user comes back by a change under way": Mutant(
        file="daemon/kafka/config_change.py",
        text="        if self._guarded and not self._is_super_user():\n",
        becomes="        if not self._guarded:\n",
        found_by="tests/daemon/kafka/test_alter_configs.py::test_removed_super_user_cannot_return_by_a_pending_change",
    ),
    "passwords of keystores are written to the log": Mutant(
        file="daemon/kafka/config_change.py",
        text="if key not in self._store_keys or (value is None and key in before)\n",
        becomes="if key not in self._store_keys or value is not None\n",
        found_by="tests/daemon/kafka/test_store_configs.py::test_stores_are_not_logged_and_end_with_a_reload",
    ),
    "DescribeConfigs shows inline private keys": Mutant(
        file="config/dynamic.py",
        text="        return is_secret_ssl_key(name)\n",
        becomes='        return name.endswith("password")\n',
        found_by="tests/config/test_dynamic.py::test_passwords_keys_and_chains_of_stores_are_secret",
    ),
    "a reload lets callers in without credentials": Mutant(
        file="daemon/certificates.py",
        text="        self._check_credentials(settings.get(OWN_PORTS))\n",
        becomes="        self._check_credentials(None)\n",
        found_by="tests/daemon/test_certificates.py::test_callers_need_credentials_once_certificates_are_asked_for",
    ),
    "a worker that is started later lets callers in without credentials": Mutant(
        file="daemon/worker.py",
        text="        self._certificates.on_client_auth(self._callers.require_credentials)\n",
        found_by="tests/end_to_end/test_rotation.py::test_every_worker_asks_for_certificates_after_a_reload",
    ),
    "a client can set keys that are not reconfigurable": Mutant(
        file="config/dynamic.py",
        text="return name in plugged or (key is not None and key.reloadable)\n",
        becomes="return key is None or key.reloadable\n",
        found_by="tests/config/test_dynamic.py::test_invalid_alteration_is_rejected_with_kafkas_text",
    ),
    "the log can name super users": Mutant(
        file="config/dynamic.py",
        text="        if is_guarded(name, self.plugged):\n",
        becomes="        if is_guarded(name, self.plugged) and name in self.since_reload:\n",
        found_by="tests/config/test_dynamic.py::test_log_does_not_change_guarded_keys",
    ),
    "the secret of a token is not compared": Mutant(
        file="config/tokens.py",
        text="return entry if is_proven else None",
        becomes="return entry",
        found_by="tests/config/test_tokens.py::test_wrong_token_is_not_found",
    ),
    "anonymous clients are forwarded although no key allows it": Mutant(
        file="config/follow/rules.py",
        text="if named and kind not in keys.values[FORWARD_PRIVILEGED]:\n",
        becomes="if named and kind is Privileged.LOCAL_USERS:\n",
        found_by="tests/config/follow/test_rules.py::test_contradiction_names_the_key_and_the_remedy",
    ),
    "a private key in PEM is shown to clients": Mutant(
        file="config/tls_keys.py",
        text="    ssl_keystore_key = Key(secret_text)\n",
        becomes="    ssl_keystore_key = Key(str)\n",
        found_by="tests/config/test_dynamic.py::test_passwords_keys_and_chains_of_stores_are_secret",
    ),
}
