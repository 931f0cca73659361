"""Every request of these tests, and its answer, must be as the decision port's document says."""

from collections.abc import Awaitable, Iterator
from importlib.util import find_spec

import pytest

from authorizerd.daemon.decisions.authzen import AuthZenHandler
from authorizerd.daemon.decisions.http_surface import HttpSurface
from authorizerd.daemon.decisions.opa import OpaHandler
from authorizerd.daemon.http.api_document import DECISION_API
from authorizerd.protocol.http.messages import Request, Response
from authorizerd.protocol.http.streamed import AnyResponse, StreamedResponse


@pytest.fixture(scope="module", autouse=True)
def _described() -> Iterator[None]:
    """Check every answer of the handlers, if jsonschema is installed, as by ``make setup-dev``."""
    if find_spec("jsonschema") is None:
        yield
        return
    from tests.support.api_description import ApiDescription, exchange_of
    from tests.support.api_documents import read_document

    description = ApiDescription(read_document(DECISION_API))

    def check_answers(handler: type[HttpSurface], patch: pytest.MonkeyPatch) -> None:
        answer = handler.__call__

        def answer_as_described(
            self: HttpSurface, request: Request
        ) -> AnyResponse | Awaitable[AnyResponse]:
            answered = answer(self, request)
            assert not isinstance(answered, StreamedResponse)
            if isinstance(answered, Response):
                description.check(exchange_of(request, answered))
                return answered
            return finish(request, answered)

        async def finish(request: Request, later: Awaitable[AnyResponse]) -> Response:
            response = await later
            assert isinstance(response, Response)
            description.check(exchange_of(request, response))
            return response

        patch.setattr(handler, "__call__", answer_as_described)

    with pytest.MonkeyPatch.context() as patch:
        check_answers(AuthZenHandler, patch)
        check_answers(OpaHandler, patch)
        yield
