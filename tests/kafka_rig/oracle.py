"""Ask Kafka's StandardAuthorizer, AclControlManager, SslPrincipalMapper and JaasConfig, and Java.

A case of ``kafka_answers`` is a JSON object whose rows are arrays: ACLs and filters
``[resourceType, name, patternType, principal, host, operation, permission]`` (None in a filter
matches any value), questions ``[principal, host, operation, resourceType, name]``. The Java records
``DecisionCase`` and ``AdministrationCase`` define cases and answers. The Java class
``PrincipalOracle`` defines those of ``principal_answers``, and ``SettingsOracle`` those of
``settings_answers``.
"""

from __future__ import annotations

import json
from collections.abc import Iterable
from typing import Any, Final

from tests.kafka_rig.rig import Rig, RigError

Case = dict[str, Any]
Answer = dict[str, Any]

_MAIN_CLASS: Final = "org.apache.kafka.controller.Oracle"
_PRINCIPAL_CLASS: Final = "org.apache.kafka.common.security.ssl.PrincipalOracle"
_SETTINGS_CLASS: Final = "org.apache.kafka.common.security.SettingsOracle"
_TIMEOUT_SECONDS: Final = 120.0


def kafka_answers(rig: Rig, cases: Iterable[Case]) -> list[Answer]:
    """Return Kafka's answer to each case, in order.

    Raises:
        RigError: the Java program failed, or could not read a case.
    """
    return _answers(rig, _MAIN_CLASS, cases)


def principal_answers(rig: Rig, cases: Iterable[Case]) -> list[Any]:
    """Return Java's text of each name, and Kafka's principals for each set of rules.

    None stands for a name or a principal that is refused.

    Raises:
        RigError: as ``kafka_answers``.
    """
    return _answers(rig, _PRINCIPAL_CLASS, cases)


def settings_answers(rig: Rig, cases: Iterable[Case]) -> list[Any]:
    """Return what Kafka reads from each JAAS line and each properties file; None is an error.

    Raises:
        RigError: as ``kafka_answers``.
    """
    return _answers(rig, _SETTINGS_CLASS, cases)


def _answers(rig: Rig, main_class: str, cases: Iterable[Case]) -> list[Any]:
    written = "".join(f"{json.dumps(case)}\n" for case in cases)
    done = rig.run_class(main_class, written=written, timeout_seconds=_TIMEOUT_SECONDS)
    if done.exit_code:
        raise RigError(f"{main_class}: exit code {done.exit_code}: {done.stderr[:1000]}")
    return [json.loads(line) for line in done.stdout.splitlines()]
