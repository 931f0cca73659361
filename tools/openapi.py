"""Write docs/api.md from the OpenAPI documents of the ports.

Run ``python -m tools.openapi`` to update the page; a test compares it.
"""

from __future__ import annotations

import json
import textwrap
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, Final

from tools.site.places import link_pages

DOCS: Final = Path(__file__).parents[1] / "docs"
_WIDTH: Final = 105
_PREFIX: Final = "#/components/"

_HEAD = """\
# The HTTP API

Use this page to look up a path, a field or a status of the decision port or the admin port.
See also [who may ask](decisions.md#who-may-ask), and [how much](limits.md).

- A daemon serves the description of each port at `/openapi.json`, as an OpenAPI 3.1 document. Tools
  can generate clients and mock servers from it. It names the credentials that this port accepts.
- `/v1/forward-auth` is for gateways, and answers any method: see [ask from a gateway](gateways.md).
- The documents for all settings are [openapi.json](openapi.json) (decision port) and
  [openapi-admin.json](openapi-admin.json) (admin port). This page is generated from them, and
  tests compare them with real requests and answers.
"""

_Json = Mapping[str, Any]


def write_page() -> str:
    """Return the text of docs/api.md."""
    documents = (DOCS / name for name in ("openapi.json", "openapi-admin.json"))
    return link_pages("\n".join(_page(*(json.loads(path.read_text()) for path in documents))))


def _page(decision: _Json, admin: _Json) -> Iterator[str]:
    yield _HEAD
    for title, document in (("The decision port", decision), ("The admin port", admin)):
        yield f"## {title}\n"
        yield _wrap(document["info"]["description"])
        for path, operations in document["paths"].items():
            for method, operation in operations.items():
                if method != "head":
                    own = _without_shared_texts(operation, document)
                    yield from _operation(path, method, own, "head" in operations)
    yield "## Credentials\n"
    for name, scheme in decision["components"]["securitySchemes"].items():
        yield _item(f"**`{name}`:** {scheme['description']}")
    yield "\n## Requests and answers of every path\n"
    for parameter in decision["components"]["parameters"].values():
        yield _wrap(
            f"A request may have the header `{parameter['name']}`: {parameter['description']}"
        )
    yield _wrap(
        "The HTTP server itself may give these answers, before a request reaches its path. A path"
        " that does not exist is answered with 404, and another method with 405; the text names"
        " the paths or methods that exist."
    )
    for response in decision["components"]["responses"].items():
        yield _status(_statuses(decision)[response[0]], response[1])
    yield "\n## Objects\n"
    for name, schema in decision["components"]["schemas"].items():
        yield f"### {name}\n"
        yield _wrap(schema.get("description", ""))
        yield from _fields(schema)


def _without_shared_texts(operation: _Json, document: _Json) -> _Json:
    """Return an operation without the responses that all paths share: the page has those once."""
    shared = {
        f" Also: {each['description']}" for each in document["components"]["responses"].values()
    }
    responses = {}
    for status, response in operation["responses"].items():
        text = response.get("description", "")
        ending = next((each for each in shared if text.endswith(each)), "")
        if "$ref" not in response:
            responses[status] = {**response, "description": text.removesuffix(ending)}
    return {**operation, "responses": responses}


def _operation(path: str, method: str, operation: _Json, has_head: bool) -> Iterator[str]:
    """Yield the section of one path and method."""
    yield f"### `{method.upper()} {path}`\n"
    yield _wrap(f"{operation['summary']}. {operation.get('description', '')}")
    if has_head:
        yield _item("HEAD gives the same answers without their bodies.")
    names = [name for each in operation["security"] for name in each]
    yield _item(
        f"**Credentials:** {' or '.join(f'`{name}`' for name in names)}, if they are set up."
        if names
        else "**Credentials:** none."
    )
    for parameter in operation["parameters"]:
        if "$ref" in parameter:
            continue
        place = {"header": "Header", "query": "Query", "path": "Path"}[parameter["in"]]
        yield _item(f"**{place} `{parameter['name']}`:** {parameter['description']}")
    if "requestBody" in operation:
        yield from _request(operation["requestBody"]["content"]["application/json"])
    for status, response in operation["responses"].items():
        yield _status(status, response)
    yield ""


def _request(content: _Json) -> Iterator[str]:
    schema = content["schema"]
    required = ", ".join(f"`{name}`" for name in schema.get("required", ()))
    yield _item(f"**Body:** {_type(schema)}{f', which must have {required}' if required else ''}.")
    if "example" in content:
        yield f"\n    ```json\n    {json.dumps(content['example'])}\n    ```\n"


def _status(status: str, response: _Json) -> str:
    types = [_content(media_type, body) for media_type, body in response["content"].items()]
    return _item(f"**{status}** ({' or '.join(types)}): {response['description']}")


def _content(media_type: str, body: _Json) -> str:
    if media_type == "application/json":
        return _type(body["schema"])
    parts = body["schema"].get("x-itemSchema")
    return f"`{media_type}`" if parts is None else f"`{media_type}` of {_type(parts)}"


def _statuses(document: _Json) -> dict[str, str]:
    """Return the status of each shared response by its name."""
    return {
        response["$ref"].removeprefix(f"{_PREFIX}responses/"): status
        for operations in document["paths"].values()
        for operation in operations.values()
        for status, response in operation["responses"].items()
        if "$ref" in response
    }


def _fields(schema: _Json) -> Iterator[str]:
    required = schema.get("required", ())
    for name, field in schema.get("properties", {}).items():
        kind = f"{_type(field)}, required" if name in required else _type(field)
        if "default" in field:
            kind += f", default `{json.dumps(field['default'])}`"
        yield _item(f"`{name}` ({kind}): {_explanation(field)}".removesuffix(": "))
    if "enum" in schema:
        yield _item(f"One of {', '.join(f'`{value}`' for value in schema['enum'])}.")
    yield ""


def _explanation(field: _Json) -> str:
    """Return the description of a field, or of one of its alternatives."""
    texts = (each.get("description", "") for each in (field, *field.get("anyOf", ())))
    return next(filter(None, texts), "")


def _type(schema: _Json) -> str:
    """Return a schema's type in a few words."""
    if "$ref" in schema:
        name = schema["$ref"].removeprefix(f"{_PREFIX}schemas/")
        return f"[{name}](#{name.lower()})"
    for key in ("anyOf", "oneOf"):
        if key in schema:
            return " or ".join(_type(each) for each in schema[key])
    if "enum" in schema:
        return "one of " + ", ".join(f"`{value}`" for value in schema["enum"])
    kinds = schema.get("type", "any value")
    text = " or ".join(kinds) if isinstance(kinds, list) else str(kinds)
    return f"{text} of {_type(schema['items'])}" if "items" in schema else text


def _item(text: str) -> str:
    return textwrap.fill(
        f"- {text}",
        _WIDTH,
        subsequent_indent="  ",
        break_long_words=False,
        break_on_hyphens=False,
    )


def _wrap(text: str) -> str:
    """Return the paragraphs of ``text``, wrapped, with an empty line after each."""
    paragraphs = (
        textwrap.fill(each, _WIDTH, break_long_words=False, break_on_hyphens=False) + "\n"
        for each in text.split("\n\n")
    )
    return "\n".join(paragraphs)


if __name__ == "__main__":
    (DOCS / "api.md").write_text(write_page())
