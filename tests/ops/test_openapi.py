"""The generated OpenAPI documents and their page."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from openapi_spec_validator import OpenAPIV31SpecValidator

from ops.openapi import write_documents

DOCS = Path(__file__).parents[2] / "docs"


@pytest.mark.parametrize("name", ["openapi.json", "openapi-admin.json", "api.md"])
def test_generated_files_are_up_to_date(name: str) -> None:
    """If this fails, run ``python -m ops.openapi``."""
    assert (DOCS / name).read_text() == write_documents()[name]


@pytest.mark.parametrize("name", ["openapi.json", "openapi-admin.json"])
def test_documents_are_valid_by_openapis_own_schema(name: str) -> None:
    OpenAPIV31SpecValidator(json.loads(write_documents()[name])).validate()


def test_every_object_and_field_of_a_request_is_explained() -> None:
    schemas = json.loads(write_documents()["openapi.json"])["components"]["schemas"]
    assert [name for name, schema in schemas.items() if not schema.get("description")] == []
