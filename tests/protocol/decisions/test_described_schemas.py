"""The structs of the decision port have the fields that its OpenAPI document describes."""

import json
from enum import Enum
from importlib import import_module
from pkgutil import iter_modules
from typing import Any

import msgspec

from authorizerd.acl.explanation.model import NearMissKind
from authorizerd.acl.model import OPERATIONS, RESOURCE_TYPES, Operation, ResourceType
from authorizerd.daemon.http.api_document import DECISION_API
from authorizerd.protocol import decisions
from tests.support.api_documents import read_document

SCHEMAS = json.loads(read_document(DECISION_API))["components"]["schemas"]
WITHOUT_STRUCT = {
    *("AclAnswer", "AnswerContext", "EvaluationAnswer", "EvaluationAnswers"),
    *("Healthy", "OpaAnswer"),
    *("ActionSearchAnswer", "ResourceSearchAnswer", "SubjectSearchAnswer"),
}
"""Answers written as text, or by one struct for several; ``tests/daemon`` compares real ones."""
READ_BY_PARTS = {"BatchedEvaluation", "BatchedResource", "BatchedSubject", "Evaluations"}


def described(name: str) -> str:
    """Return the described name of a struct, or of a reference that ends with it."""
    name = name.removesuffix("__Ignored_")  # of a struct with a parameter
    return name.replace("/_", "/").removeprefix("_").replace("NamedAcl", "AclAnswer")


def find_types() -> dict[str, type]:
    """Return the described structs and enums by name."""
    found: dict[str, type] = {"NearMissKind": NearMissKind}
    for each in iter_modules(decisions.__path__, f"{decisions.__name__}."):
        for name, value in vars(import_module(each.name)).items():
            if isinstance(value, type) and issubclass(value, msgspec.Struct | Enum):
                found[described(name)] = value
    left_out = {*WITHOUT_STRUCT, *READ_BY_PARTS}
    return {name: found[name] for name in SCHEMAS if name in found and name not in left_out}


def shape(schema: Any) -> Any:  # noqa: ANN401 - any part of a schema
    """Return a part of a schema without texts, defaults, and what msgspec does not know."""
    if isinstance(schema, list | tuple):
        return [shape(each) for each in schema]
    if not isinstance(schema, dict):
        return described(schema) if isinstance(schema, str) else schema
    ignored = {"description", "title", "const", "default", *(("enum",) if "type" in schema else ())}
    kept = {key: shape(value) for key, value in schema.items() if key not in ignored}
    return {key: value for key, value in kept.items() if value not in ([], {}, None)}


def test_types_have_the_described_fields() -> None:
    types = find_types()
    assert SCHEMAS.keys() - types.keys() == {*WITHOUT_STRUCT, *READ_BY_PARTS}
    _, made = msgspec.json.schema_components(
        types.values(), ref_template="#/components/schemas/{name}"
    )
    for name, schema in made.items():
        if described(name) not in WITHOUT_STRUCT:
            assert shape(SCHEMAS[described(name)]) == shape(schema), name


def test_names_of_opa_are_those_of_kafka() -> None:
    properties = SCHEMAS["OpaAction"]["properties"] | SCHEMAS["OpaResourcePattern"]["properties"]
    assert properties["operation"]["enum"] == [Operation(code).name for code in OPERATIONS]
    assert properties["resourceType"]["enum"] == [
        ResourceType(code).name for code in RESOURCE_TYPES
    ]
