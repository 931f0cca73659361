"""The OpenAPI documents and the page that is generated from them."""

from __future__ import annotations

import json
import re

import pytest
from openapi_spec_validator import OpenAPIV31SpecValidator

from authorizerd.daemon.http.api_document import ADMIN_API, DECISION_API, describe_port
from tools.openapi import DOCS, write_page


def test_page_is_up_to_date() -> None:
    """If this fails, run ``python -m tools.openapi``."""
    assert (DOCS / "api.md").read_text() == write_page()


@pytest.mark.parametrize("accepted", [(), ("token",)])
@pytest.mark.parametrize("name", [DECISION_API, ADMIN_API])
def test_documents_are_valid_by_openapis_own_schema(name: str, accepted: tuple[str, ...]) -> None:
    OpenAPIV31SpecValidator(json.loads((DOCS / name).read_text())).validate()
    OpenAPIV31SpecValidator(json.loads(describe_port(name, accepted))).validate()


@pytest.mark.parametrize("accepted", [(), ("token",)])
@pytest.mark.parametrize("name", [DECISION_API, ADMIN_API])
def test_every_schema_is_used(name: str, accepted: tuple[str, ...]) -> None:
    document = json.loads(describe_port(name, accepted))
    used = re.findall(r'"#/components/schemas/(\w+)"', json.dumps(document))
    assert set(used) == document["components"]["schemas"].keys()


@pytest.mark.parametrize("name", [DECISION_API, ADMIN_API])
def test_head_is_described_as_get(name: str) -> None:
    for operations in json.loads((DOCS / name).read_text())["paths"].values():
        if "get" in operations:
            get = operations["get"]
            own = {"operationId": f"{get['operationId']}Head"}
            own["summary"] = f"{get['summary']} (without the body)"
            assert operations["head"] == get | own


def test_every_object_and_field_of_a_request_is_explained() -> None:
    schemas = json.loads((DOCS / DECISION_API).read_text())["components"]["schemas"]
    assert [name for name, schema in schemas.items() if not schema.get("description")] == []
