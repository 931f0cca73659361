"""The events of a connection, in a form that can be compared."""

from authorizerd.protocol.http.connection import Event
from authorizerd.protocol.http.messages import Request


def fields(event: Event) -> object:
    if isinstance(event, Request):
        return (event.method, event.path, event.query, dict(event.headers), event.body)
    return event
