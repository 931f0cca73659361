"""The answers of the decision port, for its OpenAPI document.

Each surface has a table of its own. A path that is served must be in one of them.
"""

from __future__ import annotations

from typing import Final

from authorizerd.daemon.decisions.acl_endpoints import ACL_ENDPOINTS
from authorizerd.daemon.decisions.authzen_endpoints import AUTHZEN_ENDPOINTS
from authorizerd.daemon.decisions.opa_endpoints import OPA_ENDPOINTS
from authorizerd.protocol.http.openapi import DOCUMENT_ENDPOINT

DECISION_TITLE: Final = "authorizerd: decision port"
DECISION_DESCRIPTION: Final = (
    "Ask whether a principal may do something, by the ACLs of Apache Kafka. Errors are one line of"
    " plain text that names the field, what was expected and what was found. Unknown fields are"
    " ignored. A JSON object that contains a key twice is rejected, and so is a question of more"
    " than 32 KiB. A caller may ask about itself. For more, a key `authorizerd.callers.*` must list"
    " its principal."
)

DECISION_ENDPOINTS: Final = (
    *AUTHZEN_ENDPOINTS,
    *OPA_ENDPOINTS,
    *ACL_ENDPOINTS,
    DOCUMENT_ENDPOINT,
)
"""All endpoints of the decision port."""

ANONYMOUS_PATHS: Final = frozenset(
    endpoint.path for endpoint in DECISION_ENDPOINTS if not endpoint.credentials
)
"""The paths that need no credentials, whatever the settings are."""
