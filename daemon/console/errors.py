"""The errors of a console page that cannot show what its visitor asks for."""

from __future__ import annotations

from authorizerd.protocol.http.messages import Response


class QuestionRefusedError(Exception):
    """The decision port refused a request; the text is its reason."""

    def __init__(self, response: Response) -> None:
        super().__init__(response.body.decode("utf-8", "replace").strip())
        self.status = response.status
        self.headers = response.headers


class LoggedOutError(Exception):
    """The visitor's token is no longer valid: a reload has removed it."""
