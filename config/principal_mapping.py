"""Map a client certificate's distinguished name to a principal: ``ssl.principal.mapping.rules``.

**Invariant:** a rule gives the same principals as in Kafka, or it is rejected when it is parsed. A
name that no rule matches has no principal.

Source: Kafka 4.3 SslPrincipalMapper.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final

from authorizerd.config.errors import InvalidValueError, PrincipalMappingError
from authorizerd.config.java_regex.replacement import (
    Replacement,
    find_all,
    parse_replacement,
    replace_all,
)
from authorizerd.config.java_regex.translation import Translation, translate
from authorizerd.config.values import trim

DEFAULT_RULES: Final = "DEFAULT"
NAME_CHARACTERS_MAX: Final = 16384
"""The longest name to which rules are applied, and the longest principal."""

# Kafka's own patterns, which decide where a rule ends.
_RULE: Final = r"(DEFAULT)|RULE:((?:\\.|[^\\/])*)/((?:\\.|[^\\/])*)/([LU]?).*?|(.*?)"
_SPLITTER: Final = translate(rf"\s*({_RULE})\s*(?:,\s*|$)").pattern
_PARSER: Final = translate(_RULE).pattern

_BACK_REFERENCE: Final = re.compile(r"\$([0-9]+)")
_INTEGER_MAX: Final = 2**31 - 1
_LAST_OF_ONE_UNIT: Final = "\uffff"  # Java stores each higher character as two


@dataclass(frozen=True, slots=True)
class _Rule:
    """``RULE:pattern/replacement/case``; ``case`` is ``L``, ``U`` or empty."""

    translation: Translation
    replacement: Replacement
    case: str

    def apply(self, name: str) -> str | None:
        """Return the principal, or None if the pattern does not match the whole name.

        Raises:
            PrincipalMappingError: the name has characters that Java may treat differently.
        """
        if name and ord(max(name)) > self.translation.last_code_point:
            raise PrincipalMappingError(
                f"the pattern of a rule supports no characters above U+"
                f"{self.translation.last_code_point:04X}, found '{name}': remove \\b and "
                f"look-behind from the pattern"
            )
        pattern = self.translation.pattern
        if pattern.fullmatch(name) is None:
            return None
        if name and max(name) > _LAST_OF_ONE_UNIT:
            _check_whole(pattern, name)
        principal = replace_all(pattern, self.replacement, name)
        # Like Java for English, Python follows Unicode's SpecialCasing.
        match self.case:
            case "L":
                return principal.lower()
            case "U":
                return principal.upper()
            case _:
                return principal


@dataclass(frozen=True, slots=True)
class PrincipalMapping:
    """Parsed rules; None is the rule ``DEFAULT``. The first rule that matches a name maps it."""

    rules: tuple[_Rule | None, ...]

    @staticmethod
    def parse(text: str) -> PrincipalMapping:
        """Return the mapping of a value of ``ssl.principal.mapping.rules``.

        As in Kafka, an empty value has no rules, so that no name has a principal. A rule with a
        Unicode class such as ``\\p{Lu}`` takes about 0.2 s.

        Raises:
            InvalidValueError: a rule is malformed, or Python cannot apply it as Java does. The text
                names the rule, the construct and its position.
        """
        return PrincipalMapping(tuple(_parse_rules(text)))

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


def _parse_rules(text: str) -> Iterator[_Rule | None]:
    for found in find_all(_SPLITTER, trim(text)):
        rule = found[1]
        if not rule:
            continue
        parsed = _PARSER.match(rule)
        if parsed is None or parsed.end() != len(rule):
            rest = rule[parsed.end() :] if parsed else rule
            raise InvalidValueError(
                f"invalid rule '{rule}': expected DEFAULT or RULE:pattern/replacement/ with an "
                f"optional L or U after the last slash, found '{rest}'. Separate rules by commas, "
                f"and write \\/ for a slash in a rule"
            )
        yield None if parsed[1] else _parse_rule(rule, parsed)


def _parse_rule(rule: str, parsed: re.Match[str]) -> _Rule:
    try:
        translation = translate(parsed[2])
        replacement = _escape_unknown_references(parsed[3], translation.pattern.groups)
        return _Rule(translation, parse_replacement(replacement, translation), parsed[4])
    except InvalidValueError as error:
        raise InvalidValueError(f"rule '{rule}': {error}") from error


def _escape_unknown_references(replacement: str, groups: int) -> str:
    """Return the replacement with a backslash before each ``$n`` that the pattern has no group for.

    As in Kafka, nothing is escaped for a pattern without groups. Also as in Kafka, positions are
    those of the original text: the second backslash lands one character too early, the third two.

    Source: Kafka 4.3 SslPrincipalMapper.Rule.escapeLiteralBackReferences.
    """
    escaped = replacement
    for found in _BACK_REFERENCE.finditer(replacement) if groups else ():
        digits = found[1]
        if digits.startswith("0"):
            continue
        if len(digits) > len(str(_INTEGER_MAX)) or int(digits) > _INTEGER_MAX:
            raise InvalidValueError(
                f"invalid replacement '{replacement}': '{found[0]}' at character "
                f"{found.start() + 1}: expected a number below 2^31"
            )
        number = int(digits)
        while number > groups and number >= 10:
            number //= 10
        if number > groups:
            escaped = f"{escaped[: found.start()]}\\{escaped[found.start() :]}"
    return escaped


def _check_whole(pattern: re.Pattern[str], name: str) -> None:
    """Check that the first match is the whole name.

    Raises:
        PrincipalMappingError: Kafka would search between the two halves of a character.
    """
    first = pattern.search(name)
    if first is None or first.span() != (0, len(name)):
        raise PrincipalMappingError(
            f"a rule replaces only a part of '{name}', which has characters above U+FFFF: let its "
            f"pattern match the whole name, for example with .* at the end"
        )
