"""The rules of ``ssl.principal.mapping.rules``, each with a Java pattern.

Only a configuration with such rules loads this module: Java's patterns take long to load.

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

# Kafka's own patterns, which decide where a rule ends.
_RULE: Final = r"(DEFAULT)|RULE:((?:\\.|[^\\/])*)/((?:\\.|[^\\/])*)/([LU]?).*?|(.*?)"
_SPLITTER: Final = translate(rf"\s*({_RULE})\s*(?:,\s*|$)").pattern
_PARSER: Final = translate(_RULE).pattern

_BACK_REFERENCE: Final = re.compile(r"\$([0-9]+)")
_INTEGER_MAX: Final = 2**31 - 1
_LAST_OF_ONE_UNIT: Final = "\uffff"  # Java stores each higher character as two


@dataclass(frozen=True, slots=True)
class Rule:
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


def parse_rules(text: str) -> Iterator[Rule | None]:
    """Yield the rules of a value; None is the rule ``DEFAULT``.

    Raises:
        InvalidValueError: see ``PrincipalMapping.parse``.
    """
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


def _parse_rule(rule: str, parsed: re.Match[str]) -> Rule:
    try:
        translation = translate(parsed[2])
        replacement = _escape_unknown_references(parsed[3], translation.pattern.groups)
        return Rule(translation, parse_replacement(replacement, translation), parsed[4])
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
