"""Mutants of names of certificates and of the rules that map them to principals."""

from __future__ import annotations

from typing import Final

from tests.mutants.mutant import Mutant

CERTIFICATE_NAME_MUTANTS: Final = (
    Mutant(
        name="special characters of a certificate's name are not escaped",
        file="acl/text/distinguished_names.py",
        text="    escaped = _SPECIAL.sub(",
        becomes="    escaped = text or _SPECIAL.sub(",
        found_by="tests/tls/test_distinguished_name.py::test_parts_are_reversed_and_escaped",
    ),
    Mutant(
        name="a BMPString spells a name in UTF-8",
        file="tls/distinguished_name.py",
        text='    _BMP_STRING: "utf-16-be",',
        becomes='    _BMP_STRING: "utf-8",',
        found_by="tests/tls/test_distinguished_name.py::test_bmp_string_is_not_read_as_utf_8",
    ),
    Mutant(
        name="a certificate's name may have any length",
        file="tls/distinguished_name.py",
        text="    if len(name_der) > NAME_BYTES_MAX:",
        becomes="    if len(name_der) > 2**32:",
        found_by="tests/tls/test_distinguished_name.py::test_long_name_is_rejected",
    ),
    Mutant(
        name="bytes after a DER element are ignored",
        file="tls/der.py",
        text=" or len(element.encoded) != len(data):",
        becomes=":",
        found_by="tests/tls/test_der.py::test_anything_but_one_element_of_the_tag_is_rejected",
    ),
    Mutant(
        name="a mapping rule may match a part of a name",
        file="config/principals/rules.py",
        text="if pattern.fullmatch(name) is None:",
        becomes="if pattern.search(name) is None:",
        found_by="tests/config/principals/test_mapping.py"
        "::test_recorded_rules_give_kafkas_principals",
    ),
    Mutant(
        name="a name that no mapping rule matches is its own principal",
        file="config/principals/mapping.py",
        text='        raise PrincipalMappingError(\n            f"no rule matches',
        becomes='        return distinguished_name or str(\n            f"no rule matches',
        found_by="tests/config/principals/test_mapping.py"
        "::test_name_that_no_rule_matches_has_no_principal",
    ),
    Mutant(
        name="an unknown flag of a Java pattern is ignored",
        file="config/java_regex/translation.py",
        text="                if letter not in _FLAG_NAMES:",
        becomes='                if letter not in {*_FLAG_NAMES, *"uxU"}:',
        found_by="tests/config/java_regex/test_translation.py"
        "::test_unsupported_construct_is_rejected_with_its_place",
    ),
    Mutant(
        name="a mapping rule is applied to a name that Java may treat differently",
        file="config/principals/rules.py",
        text="        if (construct := self.translation.find_doubt(name)) is not None:",
        becomes="        if (construct := self.translation.find_doubt('')) is not None:",
        found_by="tests/config/principals/test_mapping.py"
        "::test_name_for_which_javas_answer_is_unknown_has_no_principal",
    ),
    Mutant(
        name="a mapping rule may replace any number of parts",
        file="config/principals/rules.py",
        text="    if len(matches) > _REPLACEMENTS_MAX:",
        becomes="    if len(matches) > 2**31:",
        found_by="tests/config/principals/test_mapping.py"
        "::test_name_for_which_javas_answer_is_unknown_has_no_principal",
    ),
    Mutant(
        name="a mapping rule may replace half of a character",
        file="config/principals/rules.py",
        text="> _LAST_OF_ONE_UNIT and",
        becomes="> chr(0x10FFFF) and",
        found_by="tests/config/principals/test_mapping.py"
        "::test_name_for_which_javas_answer_is_unknown_has_no_principal",
    ),
    Mutant(
        name="the lower case of a sigma is guessed",
        file="config/principals/rules.py",
        text='if case == "L" and _SIGMA in principal:',
        becomes='if case == "-" and _SIGMA in principal:',
        found_by="tests/config/principals/test_mapping.py"
        "::test_name_for_which_javas_answer_is_unknown_has_no_principal",
    ),
    Mutant(
        name="the case of a character that is new in Unicode is guessed",
        file="config/principals/rules.py",
        text="_NEW_CASES.search(principal) or ",
        becomes="",
        found_by="tests/config/principals/test_mapping.py"
        "::test_name_for_which_javas_answer_is_unknown_has_no_principal",
    ),
    Mutant(
        name="the case of an unassigned character is guessed",
        file="config/principals/rules.py",
        text=' or any(category(character) == "Cn" for character in principal)',
        becomes="",
        found_by="tests/config/principals/test_mapping.py"
        "::test_name_for_which_javas_answer_is_unknown_has_no_principal",
    ),
    Mutant(
        name="a mapping rule may have a program of any size",
        file="config/java_regex/translation.py",
        text="    if compiled.programsize > PROGRAM_SIZE_MAX:",
        becomes="    if compiled.programsize > 2**31:",
        found_by="tests/config/java_regex/test_translation.py"
        "::test_pattern_that_re2_cannot_bound_is_rejected",
    ),
    Mutant(
        name="mapping rules are matched by an engine that backtracks",
        file="config/java_regex/translation.py",
        text="    return Translation(compiled,",
        becomes="    return Translation(re.compile(text.replace('\\\\z', '\\\\Z')),",
        found_by="tests/config/java_regex/test_translation.py::test_patterns_are_matched_by_re2",
    ),
)
