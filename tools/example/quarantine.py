"""A custom authorizer that denies everything to quarantined principals; ACLs decide the rest.

Configured by::

    authorizer.class.name=tools.example.quarantine.QuarantineAuthorizer
    quarantine.principals=User:mallory;User:trudy

It wraps the built-in authorizer, which still keeps the ACLs and applies ``super.users``.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Final

from authorizerd.acl.model import Acl, AclFilter
from authorizerd.acl.steps import Steps, at_once
from authorizerd.acl.updates import Deleted
from authorizerd.actors.authorizer import Action, Authorizer, RequestContext, ServerInfo
from authorizerd.actors.completion import Completion

PRINCIPALS: Final = "quarantine.principals"


class QuarantineAuthorizer(Authorizer):
    """Deny everything to quarantined principals, and delegate the rest.

    Args:
        standard: the built-in authorizer.
    """

    def __init__(self, standard: Authorizer) -> None:
        self._standard = standard
        self._quarantined: frozenset[str] = frozenset()

    def configure(self, configs: Mapping[str, str]) -> None:
        """Read the quarantined principals.

        Raises:
            ValueError: a principal is not Type:name.
        """
        self._quarantined = _principals(configs)

    def start(self, server_info: ServerInfo) -> Mapping[str, Completion[None]]:
        return self._standard.start(server_info)

    def serves(self, principal: str) -> bool:
        return principal in self._quarantined or self._standard.serves(principal)

    def authorize(self, context: RequestContext, actions: Sequence[Action]) -> list[bool]:
        if context.principal in self._quarantined:
            return [False] * len(actions)
        return self._standard.authorize(context, actions)

    def authorize_by_resource_type(
        self, context: RequestContext, operation: int, resource_type: int
    ) -> Steps[bool]:
        if context.principal in self._quarantined:
            return at_once(False)
        return self._standard.authorize_by_resource_type(context, operation, resource_type)

    def create_acls(
        self, context: RequestContext, acls: Sequence[Acl]
    ) -> Sequence[Completion[None]]:
        return self._standard.create_acls(context, acls)

    def delete_acls(
        self, context: RequestContext, filters: Sequence[AclFilter]
    ) -> Sequence[Completion[Deleted]]:
        return self._standard.delete_acls(context, filters)

    def acls(self, filter: AclFilter) -> Iterator[Sequence[Acl]]:
        return self._standard.acls(filter)

    def acl_count(self) -> int:
        return self._standard.acl_count()

    @property
    def reconfigurable_configs(self) -> frozenset[str]:
        return self._standard.reconfigurable_configs | {PRINCIPALS}

    def validate_reconfiguration(self, configs: Mapping[str, str]) -> None:
        _principals(configs)
        self._standard.validate_reconfiguration(configs)

    def reconfigure(self, configs: Mapping[str, str]) -> None:
        self._quarantined = _principals(configs)
        self._standard.reconfigure(configs)


def _principals(configs: Mapping[str, str]) -> frozenset[str]:
    principals = frozenset(filter(None, map(str.strip, configs.get(PRINCIPALS, "").split(";"))))
    for principal in principals:
        if ":" not in principal:
            raise ValueError(f"{PRINCIPALS}: {principal} is not Type:name")
    return principals
