"""AuthZEN's metadata: the endpoints that this decision port serves, and their URLs.

Source: OpenID AuthZEN Authorization API 1.0, section 9 (Policy Decision Point Metadata).
"""

from __future__ import annotations

import re
from typing import Final

import msgspec

DISCOVERY_PATH: Final = "/.well-known/authzen-configuration"
EVALUATION_PATH: Final = "/access/v1/evaluation"
EVALUATIONS_PATH: Final = "/access/v1/evaluations"
SEARCH_SUBJECT_PATH: Final = "/access/v1/search/subject"
SEARCH_RESOURCE_PATH: Final = "/access/v1/search/resource"
SEARCH_ACTION_PATH: Final = "/access/v1/search/action"
SEARCH_PATHS: Final = (SEARCH_SUBJECT_PATH, SEARCH_RESOURCE_PATH, SEARCH_ACTION_PATH)

_AUTHORITY: Final = re.compile(rb"(?:[A-Za-z0-9._~%-]+|\[[0-9A-Fa-f:.]+\])(?::[0-9]{1,5})?")


class Metadata(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """The answer to a discovery request. Endpoints that are not served are omitted."""

    policy_decision_point: str
    access_evaluation_endpoint: str
    access_evaluations_endpoint: str
    search_subject_endpoint: str | None = None
    search_resource_endpoint: str | None = None
    search_action_endpoint: str | None = None


def base_url_of(host: bytes | None, *, is_tls: bool) -> str | None:
    """Return the base URL that a client used, by its Host header; None if that names no host."""
    if host is None or not _AUTHORITY.fullmatch(host):
        return None
    return f"{'https' if is_tls else 'http'}://{host.decode()}"


def encode_metadata(base_url: str, *, has_searches: bool) -> bytes:
    """Return the JSON of the metadata.

    Args:
        base_url: without a slash at its end.
    """
    metadata = Metadata(
        policy_decision_point=base_url,
        access_evaluation_endpoint=base_url + EVALUATION_PATH,
        access_evaluations_endpoint=base_url + EVALUATIONS_PATH,
    )
    if has_searches:
        metadata = msgspec.structs.replace(
            metadata,
            search_subject_endpoint=base_url + SEARCH_SUBJECT_PATH,
            search_resource_endpoint=base_url + SEARCH_RESOURCE_PATH,
            search_action_endpoint=base_url + SEARCH_ACTION_PATH,
        )
    return msgspec.json.encode(metadata)
