"""Map a client certificate's distinguished name to a principal: ``ssl.principal.mapping.rules``.

**Invariant:** a rule gives the same principals as in Kafka, or it is rejected when it is parsed. A
name that no rule matches has no principal.

Source: Kafka 4.3 SslPrincipalMapper.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from authorizerd.config.errors import PrincipalMappingError
from authorizerd.config.values import trim

if TYPE_CHECKING:
    from authorizerd.config.principals.rules import Rule

DEFAULT_RULES: Final = "DEFAULT"
NAME_CHARACTERS_MAX: Final = 16384
"""The maximum length of a name to which rules apply, and of a principal."""


@dataclass(frozen=True, slots=True)
class PrincipalMapping:
    """Parsed rules; None is the rule ``DEFAULT``. The first rule that matches a name maps it."""

    rules: tuple[Rule | None, ...]

    @staticmethod
    def parse(text: str) -> PrincipalMapping:
        """Return the mapping of a value of ``ssl.principal.mapping.rules``.

        As in Kafka, an empty value has no rules, so that no name has a principal.

        Raises:
            InvalidValueError: a rule is malformed, or RE2 cannot apply it as Java does. The text
                names the rule, the construct and its position.
        """
        if trim(text) == DEFAULT_RULES:
            return PrincipalMapping((None,))
        # Imported here: nearly every configuration has the default, and each command reads one.
        from authorizerd.config.principals.rules import parse_rules

        return PrincipalMapping(tuple(parse_rules(text)))

    def apply(self, distinguished_name: str) -> str:
        """Return the principal's name, without ``User:``.

        Args:
            distinguished_name: the text that ``authorizerd.tls.distinguished_name.rfc2253``
                returns.

        Raises:
            PrincipalMappingError: no rule matches, or the name or the principal is too long.
        """
        if len(distinguished_name) > NAME_CHARACTERS_MAX:
            raise PrincipalMappingError(
                f"the distinguished name has {len(distinguished_name)} characters: expected at "
                f"most {NAME_CHARACTERS_MAX}"
            )
        for rule in self.rules:
            principal = distinguished_name if rule is None else rule.apply(distinguished_name)
            if principal is None:
                continue
            if len(principal) > NAME_CHARACTERS_MAX:
                raise PrincipalMappingError(
                    f"the principal of '{distinguished_name}' has {len(principal)} characters: "
                    f"expected at most {NAME_CHARACTERS_MAX}"
                )
            return principal
        raise PrincipalMappingError(
            f"no rule matches '{distinguished_name}': add one, or DEFAULT at the end, to "
            "ssl.principal.mapping.rules (of the decision and admin ports: "
            "authorizerd.http.ssl.principal.mapping.rules)"
        )
