"""Responses to bytes, and the headers of requests."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from authorizerd.protocol.http.messages import LOOPBACK_HOSTS, NO_STORE, Response, encode_response


def test_headers_that_are_encoded_once_are_written_as_others() -> None:
    (field,) = NO_STORE
    others = Response(status=200, body=b"", headers=(field, (b"Allow", b"GET")))
    expected = encode_response(others).replace(b"Allow: GET\r\n", b"")
    assert encode_response(Response(status=200, body=b"", headers=NO_STORE)) == expected
    assert b"Cache-Control: no-store\r\n" in expected


def test_response_is_written_with_its_length() -> None:
    response = Response(
        status=404, body=b"none\n", headers=((b"X-Request-ID", b"7"), (b"Allow", b"GET"))
    )
    assert encode_response(response) == (
        b"HTTP/1.1 404 Not Found\r\nContent-Type: text/plain; charset=utf-8\r\n"
        b"Content-Length: 5\r\nX-Request-ID: 7\r\nAllow: GET\r\n\r\nnone\n"
    )


@given(st.text("ab:\r\n\0\x7f ", max_size=6), st.text("ab:\r\n\0\x7f ", max_size=6))
def test_response_header_cannot_break_its_line(name: str, value: str) -> None:
    """A handler may echo a peer's text."""
    for content_type, headers in (("text/plain", ((name.encode(), value.encode()),)), (value, ())):
        response = Response(status=200, body=b"", content_type=content_type, headers=headers)
        try:
            data = encode_response(response)
        except ValueError:
            continue
        assert data.count(b"\r\n") == 4 + len(headers)
        assert data.endswith(b"\r\n\r\n")
        assert not any(byte in data.replace(b"\r\n", b"") for byte in b"\r\n\0\x7f")


@pytest.mark.parametrize(
    ("host", "allowed"),
    [
        (b"localhost", True),
        (b"LocalHost:8181", True),
        (b"127.0.0.1:8181", True),
        (b"127.1.2.3", True),
        (b"[::1]:80", True),
        (b"[::1]", True),
        (b"", False),
        (b"localhost.evil.example", False),
        (b"127.0.0.1.evil.example", False),
        (b"127.0.0.1:80@evil.example", False),
        (b"evil.example", False),
        (b"128.0.0.1", False),
        (b"::1", False),
        (b"localhost:", False),
        (b"localhost:8181\n", False),
        (b"192.168.0.1:8181", False),
    ],
)
def test_loopback_hosts_name_only_this_machine(host: bytes, allowed: bool) -> None:
    """Other names may resolve to it through someone else's DNS."""
    assert (LOOPBACK_HOSTS.fullmatch(host) is not None) == allowed
