"""Mutants of the settings: what is checked, and what an admin client may alter."""

from __future__ import annotations

from typing import Final

from tests.mutants.mutant import Mutant

SETTING_MUTANTS: Final = (
    Mutant(
        name="a fault is named that only follows from a mistyped key",
        file="config/key_values.py",
        text="elif key.name not in mistyped:",
        becomes="else:",
        found_by="tests/config/test_faults.py::test_what_depends_on_a_fault_is_no_fault",
    ),
    Mutant(
        name="a fault is named twice",
        file="config/key_values.py",
        text="if key not in KEYS_BY_NAME or key in self.values:",
        becomes="if True:",
        found_by="tests/config/test_faults.py::test_what_depends_on_a_fault_is_no_fault",
    ),
    Mutant(
        name="a missing key is a fault although an override cannot be read",
        file="config/configuration.py",
        text="    if faults:  # its key",
        becomes="    if False:  # its key",
        found_by="tests/config/test_faults.py::test_every_invalid_key_is_named_in_the_order_of_the_file",
    ),
    Mutant(
        name="an override without = is printed",
        file="config/properties.py",
        text='found = "a text without a key" if equals',
        becomes="found = override if equals is not None",
        found_by="tests/config/test_properties.py::test_malformed_override_is_rejected_without_its_text",
    ),
    Mutant(
        name="any client that may alter configs can reconfigure a plugged-in authorizer",
        file="config/dynamic.py",
        text="return name in GUARDED or name in plugged\n",
        becomes="return name in GUARDED\n",
        found_by="tests/daemon/kafka/test_guarded_configs.py::test_plugged_in_key_is_guarded_and_ends_with_a_reload",
    ),
    Mutant(
        name="any client that may alter configs can replace certificates",
        file="daemon/kafka/config_plan.py",
        text="        if guarded and not self._is_super_user():\n",
        becomes="        if guarded.keys() - self._store_keys and not self._is_super_user():\n",
        found_by="tests/daemon/kafka/test_store_configs.py::test_only_a_super_user_may_change_stores",
    ),
    Mutant(
        name="a change that waited for a reload is made by a former super user",
        file="daemon/kafka/configs.py",
        text="lambda: was_super_user and self._is_super_user(context)",
        becomes="lambda: was_super_user",
        found_by="tests/daemon/kafka/test_store_configs.py::test_change_during_a_reload_needs_a_super_user_of_before_and_after_it",
    ),
    Mutant(
        name="unchecked values of a new super user are set",
        file="daemon/kafka/configs.py",
        text="lambda: was_super_user and self._is_super_user(context)",
        becomes="lambda: self._is_super_user(context)",
        found_by="tests/daemon/kafka/test_store_configs.py::test_change_during_a_reload_needs_a_super_user_of_before_and_after_it",
    ),
    Mutant(
        name="a removed super user comes back by a change under way",
        file="daemon/kafka/config_change.py",
        text="        if self._guarded and not self._is_super_user():\n",
        becomes="        if not self._guarded:\n",
        found_by="tests/daemon/kafka/test_guarded_configs.py::test_removed_super_user_cannot_come_back_by_a_change_under_way",
    ),
    Mutant(
        name="passwords of keystores are written to the log",
        file="daemon/kafka/config_plan.py",
        text="if key not in self._store_keys or (value is None and key in before)\n",
        becomes="if key not in self._store_keys or value is not None\n",
        found_by="tests/daemon/kafka/test_store_configs.py::test_stores_are_not_logged_and_end_with_a_reload",
    ),
    Mutant(
        name="an unusable store is in force once its key is set",
        file="daemon/kafka/config_change.py",
        text="for name, each in self._wanted.items() if name != node}\n",
        becomes="for name, each in self._wanted.items()}\n",
        found_by="tests/daemon/kafka/test_store_configs.py::test_unusable_store_is_refused_and_changes_nothing",
    ),
    Mutant(
        name="DescribeConfigs shows inline private keys",
        file="config/dynamic.py",
        text="        return is_secret_ssl_key(name)\n",
        becomes='        return name.endswith("password")\n',
        found_by="tests/config/test_dynamic.py::test_passwords_keys_and_chains_of_stores_are_secret",
    ),
    Mutant(
        name="a reload replaces a valid certificate by an expired one",
        file="daemon/certificates.py",
        text="if before is not None and not loaded.has_chain_of(before):\n",
        becomes="if before is None:\n",
        found_by="tests/daemon/test_certificates.py::test_unusable_store_leaves_the_old_certificates_on_all_ports",
    ),
    Mutant(
        name="a reload lets callers in without credentials",
        file="daemon/certificates.py",
        text="        self._check_credentials(settings.get(OWN_PORTS))\n",
        becomes="        self._check_credentials(None)\n",
        found_by="tests/daemon/test_certificates.py::test_callers_need_credentials_once_certificates_are_asked_for",
    ),
    Mutant(
        name="a worker that is started later lets callers in without credentials",
        file="daemon/worker.py",
        text="        self._certificates.on_client_auth(self._callers.require_credentials)\n",
        becomes="",
        found_by="tests/end_to_end/test_rotation.py::test_every_worker_asks_for_certificates_after_a_reload",
    ),
    Mutant(
        name="a wrapped built-in authorizer keeps the super users of the start",
        file="daemon/settings.py",
        text="dict.fromkeys((self._standard, self._authorizer)):",
        becomes="(self._authorizer,):",
        found_by="tests/daemon/test_plugged_in.py::test_built_in_authorizer_gets_new_settings_under_any_wrapper",
    ),
    Mutant(
        name="long guarded values are parsed for every client",
        file="config/alterations.py",
        text="        if name in forbidden:\n",
        becomes="        if name in forbidden and not value:\n",
        found_by="tests/daemon/kafka/test_guarded_configs.py::test_guarded_values_are_parsed_for_super_users_only",
    ),
    Mutant(
        name="a client can set keys that are not reconfigurable",
        file="config/dynamic.py",
        text="return name in plugged or (key is not None and key.reloadable)\n",
        becomes="return key is None or key.reloadable\n",
        found_by="tests/config/test_alterations.py::test_invalid_alteration_is_rejected_with_kafkas_text",
    ),
    Mutant(
        name="a client can set a limit that locks everyone out",
        file="config/dynamic.py",
        text="key.wire_minimum is not None and parsed < key.wire_minimum",
        becomes="key.wire_minimum is not None and parsed < 1",
        found_by="tests/config/test_alterations.py::test_client_cannot_set_a_limit_that_locks_everyone_out",
    ),
    Mutant(
        name="the computed bound underestimates the growth of requests",
        file="config/bounds.py",
        text="KAFKA_GROWTH: Final = 48\n",
        becomes="KAFKA_GROWTH: Final = 24\n",
        found_by="tests/daemon/test_memory_growth.py::test_kafka_request_stays_within_its_growth_factor",
    ),
    Mutant(
        name="the alterations of a request are checked in one step",
        file="config/alterations.py",
        text=(
            "            nulls.append(alteration.name)\n"
            "        if number % _ALTERATIONS_PER_STEP == 0:\n"
        ),
        becomes=(
            "            nulls.append(alteration.name)\n        if number == len(alterations):\n"
        ),
        found_by="tests/config/test_alterations.py::test_many_alterations_are_checked_in_steps",
    ),
    Mutant(
        name="the log can name super users",
        file="config/dynamic.py",
        text="        if is_guarded(name, self.plugged):\n",
        becomes="        if is_guarded(name, self.plugged) and name in self.since_reload:\n",
        found_by="tests/config/test_dynamic.py::test_log_does_not_change_guarded_keys",
    ),
    Mutant(
        name="the secret of a token is not compared",
        file="config/tokens.py",
        text="return entry if is_proven else None",
        becomes="return entry",
        found_by="tests/config/test_tokens.py::test_wrong_token_is_not_found",
    ),
    Mutant(
        name="dynamic configs of a followed cluster's broker are settings of the daemon",
        file="daemon/settings.py",
        text="configs = Map() if self.is_changed_by_file_alone else self._image.newest.configs\n",
        becomes="configs = self._image.newest.configs\n",
        found_by="tests/daemon/kafka/test_follower_configs.py::test_configs_of_brokers_are_not_settings_of_a_follower",
    ),
    Mutant(
        name="clients change settings of a daemon that follows a cluster",
        file="daemon/kafka/configs.py",
        text="return _FILE_ALONE if self._settings.is_changed_by_file_alone else None\n",
        becomes="return None\n",
        found_by="tests/daemon/kafka/test_follower_configs.py::test_no_client_sets_keys_of_a_follower",
    ),
    Mutant(
        name="DescribeConfigs shows the password for the log-in to controllers",
        file="config/dynamic.py",
        text='name.endswith(("sasl.jaas.config", ',
        becomes='name.endswith((".sasl.jaas.config", ',
        found_by="tests/daemon/kafka/test_follower_configs.py::test_credentials_of_a_follower_are_described_as_null",
    ),
    Mutant(
        name="anonymous clients are forwarded although no key allows it",
        file="config/follow_rules.py",
        text="if named and kind not in keys.values[FORWARD_PRIVILEGED]:\n",
        becomes="if named and kind is Privileged.LOCAL_USERS:\n",
        found_by="tests/config/test_follow_rules.py::test_contradiction_names_the_key_and_the_remedy",
    ),
    Mutant(
        name="a follower of brokers opens a SCRAM listener without credentials",
        file="config/configuration.py",
        text="    keys.attempt(check_log_ins, source, sasl_listeners)\n",
        found_by="tests/config/test_follow_rules.py::test_contradiction_names_the_key_and_the_remedy",
    ),
    Mutant(
        name="a listener's own ssl key may begin with any prefix",
        file="config/ssl_key_names.py",
        text='listener and prefix == f"{_LISTENER}{listener}." and',
        becomes="listener and",
        found_by="tests/config/test_dynamic.py::test_long_name_of_a_client_takes_linear_time",
    ),
)
