"""Texts in Terraform: literal strings in HCL's JSON syntax, where ``${`` begins an expression.

Source: HCL's specification of templates and of the JSON syntax; go-cty, whose strings are in
Unicode's normalization form C.
"""

from __future__ import annotations

import re
import unicodedata
from typing import Final

from authorizerd.acl.formats.model import AclTextError
from authorizerd.acl.formats.values import Value, check_text

_BEGINNING: Final = re.compile(r"[$%]\{")
_ESCAPED: Final = re.compile(r"\$\$\{|%%\{")
_BYTE_ORDER_MARK: Final = "\ufeff"


def why_not_string(text: str) -> str | None:
    """Return why Terraform would change a text; None if it would not."""
    if unicodedata.normalize("NFC", text) != text:
        return "Terraform changes text to Unicode's normalization form C"
    if text.startswith(_BYTE_ORDER_MARK):
        return "Terraform removes a byte order mark"
    return None


def escape_template(text: str) -> str:
    """Return a template with the value ``text``, if ``why_not_string`` returns None."""
    return _BEGINNING.sub(lambda found: f"{found[0][0]}{found[0]}", text)


def unescape_template(place: str, template: Value) -> str:
    """Return the value that Terraform would give a template without expressions.

    Raises:
        AclTextError: it has an expression, or is not a text.
    """
    text = check_text(place, template)
    if _BEGINNING.search(_ESCAPED.sub("-", text)):
        raise AclTextError(
            place,
            f"expected a text without an expression, found {text[:80]!r}: use the plan of "
            "terraform show -json",
        )
    value = _ESCAPED.sub(lambda found: found[0][1:], text)
    return unicodedata.normalize("NFC", value.removeprefix(_BYTE_ORDER_MARK))
