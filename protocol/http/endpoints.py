"""The endpoints of an HTTP port as tables: what may be asked, and every answer to it.

The tables are beside the handlers. ``openapi`` writes them as an OpenAPI document, and tests
compare them with real traffic.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final, TypeAlias

import msgspec

from authorizerd.protocol.http.rights import Needs

OPENAPI_PATH: Final = "/openapi.json"
JSON: Final = "application/json"
TEXT: Final = "text/plain"
EVENTS: Final = "text/event-stream"
LINES: Final = "application/x-ndjson"

GET: Final = ("GET", "HEAD")
POST: Final = ("POST",)

TOKEN: Final = "token"  # noqa: S105 - the name of a security scheme
TOKEN_IN_QUERY: Final = "tokenInQuery"  # noqa: S105 - as above
CERTIFICATE: Final = "certificate"
ANY_CREDENTIALS: Final = (TOKEN, CERTIFICATE)
"""What callers present if credentials are set up. ``()`` is for endpoints that need none."""

SCHEMES: Final[Mapping[str, Mapping[str, str]]] = {
    TOKEN: {
        "type": "http",
        "scheme": "bearer",
        "description": "A token of the file `authorizerd.tokens.file`, as `ID.SECRET`. The command"
        " `authorizerd token` makes one.",
    },
    TOKEN_IN_QUERY: {
        "type": "apiKey",
        "in": "query",
        "name": "token",
        "description": "The same token in the URL, for Kafka's OPA plugin, which cannot send"
        " headers.",
    },
    CERTIFICATE: {
        "type": "mutualTLS",
        "description": "A client certificate, if `authorizerd.http.ssl.client.auth` asks for one."
        " `ssl.principal.mapping.rules` make its name a principal.",
    },
}

HEADERS: Final[Mapping[str, str]] = {
    "X-Request-ID": "The request's own `X-Request-ID`, if it has one.",
    "Retry-After": "Sent with `overloaded`: the seconds to wait before the next try.",
    "WWW-Authenticate": "`Bearer`.",
}


class Parameter(msgspec.Struct, frozen=True):
    """A header, a part of the query, or a part of the path that callers send.

    ``place`` is ``header``, ``query`` or ``path``.
    """

    name: str
    place: str
    meaning: str
    type: Any = str
    required: bool = False


REQUEST_ID: Final = Parameter(
    "X-Request-ID", "header", "Any text that names the request. The answer repeats it."
)
"""The header that every request may have. The server repeats it in every answer."""


StructType: TypeAlias = type[msgspec.Struct]


class Answer(msgspec.Struct, frozen=True):
    """A status that an endpoint answers with.

    Args:
        meaning: one or two sentences for the caller.
        body: the struct of a JSON body, or several, of which each answer has one; None for a text.
        parts: structs that ``body`` refers to by name only (``one_of``); without a ``body``, those
            of the lines or events of a stream.
        media_type: None for JSON if there is a ``body``, else for text.
        headers: names of ``HEADERS``.
    """

    status: int
    meaning: str
    body: StructType | tuple[StructType, ...] | None = None
    parts: tuple[StructType, ...] = ()
    media_type: str | None = None
    headers: tuple[str, ...] = ()

    @property
    def bodies(self) -> tuple[StructType, ...]:
        """The structs of ``body``."""
        if self.body is None:
            return ()
        return self.body if isinstance(self.body, tuple) else (self.body,)

    @property
    def content_type(self) -> str:
        """The body's media type without parameters."""
        return self.media_type or (TEXT if self.body is None else JSON)


class Endpoint(msgspec.Struct, frozen=True, kw_only=True):
    """A path, and all that its handler answers to some methods.

    ``SHARED_ANSWERS`` hold for every endpoint, so ``answers`` lists only those that the handler
    gives itself, or gives for another reason.

    Args:
        path: ``{name}`` stands for any number of segments that callers choose.
        name: the operation's id, unique in its port.
        tag: the endpoint's group in the documentation.
        request: the struct of the JSON body.
        required: fields that this endpoint requires although the struct has defaults for them.
        example: a body that is answered with status 200.
        credentials: names of ``SCHEMES``, any of which identifies the caller; ``()`` if none is
            necessary.
        if_all_trusted: what replaces ``answers`` on a port that trusts every caller, and so does
            not know who calls; ``()`` if nothing changes.
        needs: the rights that callers with credentials need. Every endpoint of the decision port
            that requires credentials has them.
    """

    path: str
    methods: tuple[str, ...]
    name: str
    tag: str
    summary: str
    description: str = ""
    request: StructType | None = None
    required: tuple[str, ...] = ()
    example: Mapping[str, Any] | None = None
    parameters: tuple[Parameter, ...] = ()
    answers: tuple[Answer, ...]
    credentials: tuple[str, ...] = ANY_CREDENTIALS
    if_all_trusted: tuple[Answer, ...] = ()
    needs: Needs | None = None


SHARED_ANSWERS: Final[Mapping[str, Answer]] = {
    "InvalidHttp": Answer(400, "The request is not valid HTTP/1.1."),
    "Unidentified": Answer(
        401,
        "The token is wrong, or there is neither a token nor a certificate.",
        headers=("WWW-Authenticate",),
    ),
    "ForeignHost": Answer(
        403,
        "The `Host` header does not name this machine, on a port that requires no credentials.",
    ),
    "TooSlow": Answer(408, "The request did not arrive in `authorizerd.http.header.timeout.ms`."),
    "BodyTooLong": Answer(413, "The body is longer than the port allows."),
    "RequestLineTooLong": Answer(414, "The request line is longer than 8 KiB."),
    "UnknownExpectation": Answer(
        417, "The header `Expect` asks for something other than `100-continue`."
    ),
    "HeadersTooLong": Answer(
        431, "The headers are longer than 16 KiB, or there are more than 100."
    ),
    "InternalError": Answer(500, "The daemon failed to answer, and has logged the error."),
    "NotImplemented": Answer(
        501, "The transfer coding is not `chunked`, or the method is unknown."
    ),
    "Overloaded": Answer(
        503,
        "The daemon has too much to do (`overloaded`, with `Retry-After`), too little memory for"
        " this request, or too many connections.",
        headers=("Retry-After",),
    ),
    "UnknownVersion": Answer(505, "The request is neither HTTP/1.1 nor HTTP/1.0."),
}
"""The answers of the HTTP server itself on every path, each one line of text, by name."""


def one_of(*structs: StructType) -> msgspec.Meta:
    """Return the annotation of a field that contains one of these structs, encoded elsewhere."""
    refs = [{"$ref": f"#/components/schemas/{struct.__name__}"} for struct in structs]
    return msgspec.Meta(extra_json_schema={"oneOf": refs})
