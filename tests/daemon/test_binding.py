from __future__ import annotations

import pytest
import trio

from daemon.binding import bind
from daemon.errors import StartError

KEY = "authorizerd.decision.http"


def port_of(address: str) -> int:
    return int(address.rpartition(":")[2])


async def test_a_bound_endpoint_refuses_until_it_listens() -> None:
    """Who comes before the gate opens is refused, not left to wait; after, accepted."""
    endpoint = await bind("127.0.0.1", 0, KEY)
    port = port_of(endpoint.address)
    with pytest.raises(OSError, match="connect"):
        await trio.open_tcp_stream("127.0.0.1", port)
    listeners = endpoint.listen()
    async with await trio.open_tcp_stream("127.0.0.1", port), await listeners[0].accept():
        pass
    endpoint.close()


async def test_an_address_in_use_is_found_at_once() -> None:
    """Before anything is loaded; the error names key and address."""
    first = await bind("127.0.0.1", 0, KEY)
    first.listen()
    port = port_of(first.address)
    with pytest.raises(StartError, match=f"{KEY}: 127.0.0.1:{port}: Address already in use"):
        await bind("127.0.0.1", port, KEY)
    first.close()


async def test_an_address_taken_between_binding_and_listening_is_named() -> None:
    """Two may bind, only one may listen."""
    first = await bind("127.0.0.1", 0, KEY)
    second = await bind("127.0.0.1", port_of(first.address), KEY)
    first.listen()
    with pytest.raises(StartError, match=KEY):
        second.listen()
    first.close()
    second.close()


async def test_every_address_of_localhost_gets_the_same_port() -> None:
    """Whichever a client tries first, it finds the daemon."""
    endpoint = await bind("localhost", 0, KEY)
    listeners = endpoint.listen()
    ports = {listener.socket.getsockname()[1] for listener in listeners}
    assert ports == {port_of(endpoint.address)}
    endpoint.close()


async def test_an_address_of_another_machine_is_named() -> None:
    """Documentation's network is nobody's."""
    with pytest.raises(StartError, match=r"192\.0\.2\.1"):
        await bind("192.0.2.1", 0, KEY)
