"""The answers of HTTP handlers, which answer at once or later."""

from collections.abc import Awaitable

from authorizerd.protocol.http.messages import Response
from authorizerd.protocol.http.streamed import AnyResponse, complete


async def answer_of(answer: AnyResponse | Awaitable[AnyResponse]) -> Response:
    """Wait for what a handler has returned. It is not streamed."""
    response = await complete(answer)
    assert isinstance(response, Response)
    return response
