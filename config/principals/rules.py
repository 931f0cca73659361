"""The rules of ``ssl.principal.mapping.rules``, each with a Java pattern.

Only a configuration with such rules loads this module: Java's patterns take long to load.

Source: Kafka 4.3 SslPrincipalMapper.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import islice
from typing import Final
from unicodedata import category

from authorizerd.config.errors import InvalidValueError, PrincipalMappingError
from authorizerd.config.java_regex.replacement import (
    Replacement,
    find_all,
    parse_replacement,
    replace,
)
from authorizerd.config.java_regex.translation import LINE_ENDS, Translation, translate
from authorizerd.config.values import trim

# Kafka's own patterns, which decide where a rule ends.
_RULE: Final = r"(DEFAULT)|RULE:((?:\\.|[^\\/])*)/((?:\\.|[^\\/])*)/([LU]?).*?|(.*?)"
_SPLITTER: Final = translate(rf"\s*({_RULE})\s*(?:,\s*|$)").pattern
_PARSER: Final = translate(_RULE).pattern

_BACK_REFERENCE: Final = re.compile(r"\$([0-9]+)")
_INTEGER_MAX: Final = 2**31 - 1
_LAST_OF_ONE_UNIT: Final = "\uffff"  # Java stores each higher character as two
_SIGMA: Final = "\u03a3"  # its lower case depends on whether it ends a word
# Unicode 14 to 17 gave these a case, or changed it. Java 17 has Unicode 13.
_NEW_CASES: Final = re.compile(
    "[\u019b\u0264\u1c89\u1c8a\u2c2f\u2c5f\ua7c0\ua7c1\ua7cb-\ua7dc"
    "\U00010570-\U000105bf\U00010d50-\U00010d8f\U00016ea0-\U00016ed3]"
)
_REPLACEMENTS_MAX: Final = 32  # each replacement searches the rest of the name


@dataclass(frozen=True, slots=True)
class Rule:
    """``RULE:pattern/replacement/case``; ``case`` is ``L``, ``U`` or empty."""

    translation: Translation
    replacement: Replacement
    case: str

    def apply(self, name: str) -> str | None:
        """Return the principal, or None if the pattern does not match the whole name.

        Raises:
            PrincipalMappingError: Java may treat the name differently, or the rule replaces too
                many parts of it.
        """
        if (construct := self.translation.find_doubt(name)) is not None:
            raise PrincipalMappingError(
                f"the answer of a rule with {construct} for '{name}' depends on Java's release, or "
                f"is unknown: remove {construct} from the pattern"
            )
        pattern = self.translation.pattern
        try:
            if pattern.fullmatch(name) is None:
                return None
        except UnicodeEncodeError as error:
            raise PrincipalMappingError(f"'{name}' has half of a character") from error
        matches = list(islice(find_all(pattern, name), _REPLACEMENTS_MAX + 1))
        _check_matches(matches, name)
        principal = replace(matches, self.replacement, name)
        return _change_case(principal, self.case) if self.case else principal


def _change_case(principal: str, case: str) -> str:
    """Return the lower case (``L``) or the upper case (``U``), as Java gives it for English.

    Raises:
        PrincipalMappingError: the answer depends on Java's release, or is unknown.
    """
    if case == "L" and _SIGMA in principal:
        raise PrincipalMappingError(
            f"the lower case of '{principal}' is unknown, because Java finds the ends of words "
            f"with rules of its own: remove L from the rule, or {_SIGMA} from the name"
        )
    if not principal.isascii() and (
        _NEW_CASES.search(principal) or any(category(character) == "Cn" for character in principal)
    ):
        raise PrincipalMappingError(
            f"the case of '{principal}' depends on Java's release, because some characters of it "
            f"are new in Unicode: remove {case} from the rule"
        )
    # Like Java, Python follows Unicode's SpecialCasing.
    return principal.lower() if case == "L" else principal.upper()


def parse_rules(text: str) -> Iterator[Rule | None]:
    """Yield the rules of a value; None is the rule ``DEFAULT``.

    Raises:
        InvalidValueError: see ``PrincipalMapping.parse``.
    """
    rules = trim(text)
    if rules.endswith(LINE_ENDS):
        raise InvalidValueError("expected a rule, found a line terminator at the end: remove it")
    for match in find_all(_SPLITTER, rules):
        rule = match[1]
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
    """Return the replacement with a backslash before each ``$n`` without a group in the pattern.

    As in Kafka, nothing is escaped for a pattern without groups. Also as in Kafka, positions are
    those of the original text: the second backslash lands one character too early, the third two.

    Source: Kafka 4.3 SslPrincipalMapper.Rule.escapeLiteralBackReferences.
    """
    escaped = replacement
    for reference in _BACK_REFERENCE.finditer(replacement) if groups else ():
        digits = reference[1]
        if digits.startswith("0"):
            continue
        if len(digits) > len(str(_INTEGER_MAX)) or int(digits) > _INTEGER_MAX:
            raise InvalidValueError(
                f"invalid replacement '{replacement}': '{reference[0]}' at character "
                f"{reference.start() + 1}: expected a number below 2^31"
            )
        number = int(digits)
        while number > groups and number >= 10:
            number //= 10
        if number > groups:
            escaped = f"{escaped[: reference.start()]}\\{escaped[reference.start() :]}"
    return escaped


def _check_matches(matches: list[re.Match[str]], name: str) -> None:
    """Check that the matches are the same as Java's, and not too many.

    Raises:
        PrincipalMappingError: there are too many, or Kafka would search between the two halves of a
            character.
    """
    if len(matches) > _REPLACEMENTS_MAX:
        raise PrincipalMappingError(
            f"a rule replaces more than {_REPLACEMENTS_MAX} parts of '{name}': let its pattern "
            f"match the whole name, for example with .* at the end"
        )
    if max(name, default="") > _LAST_OF_ONE_UNIT and matches[0].span() != (0, len(name)):
        raise PrincipalMappingError(
            f"a rule replaces only a part of '{name}', which has characters above U+FFFF: let its "
            f"pattern match the whole name, for example with .* at the end"
        )
