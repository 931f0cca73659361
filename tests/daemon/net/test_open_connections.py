"""Places: who gives way to a newcomer, by network."""

from collections import Counter

import pytest
import trio
import trio.testing
from hypothesis import given
from hypothesis import strategies as st

from authorizerd.daemon.net.connection import Connection, Phase
from authorizerd.daemon.net.connection_limits import network_of
from authorizerd.daemon.net.open_connections import Guest, OpenConnections
from tests.daemon.net.echo_server import HELLO, Server, ask, new_limits
from tests.daemon.serving import serve_on_loopback

NETWORKS = st.sampled_from("abc")
GUESTS = st.lists(st.tuples(NETWORKS, st.booleans(), st.integers(0, 3)), min_size=1, max_size=12)


class Crowd:
    """Places, and the connections that gave way."""

    def __init__(self) -> None:
        self.places = OpenConnections(self._end)
        self.ended: list[Guest] = []
        self._server = Server()

    def enter(self, network: str, *, is_answered: bool = False, since: float = 0) -> Connection:
        connection = Connection(self._server, trio.testing.memory_stream_pair()[0])
        connection.network = connection.source = network
        connection.since = since
        self.places.add(connection)
        if is_answered:
            self.places.establish(connection, is_known=False)
        return connection

    def _end(self, guest: Guest) -> None:
        self.ended.append(guest)
        assert self.places.remove(guest)


@given(GUESTS, NETWORKS)
async def test_no_network_yields_to_a_larger(
    guests: list[tuple[str, bool, int]], newcomer: str
) -> None:
    """Until nobody is left, each eviction finds one, in a network with as many connections."""
    crowd = Crowd()
    for network, is_answered, since in guests:
        crowd.enter(network, is_answered=is_answered, since=since)
    sizes = Counter(network for network, *_ in guests)
    for ended in range(len(guests)):
        assert crowd.places.taken == len(guests) - ended
        assert crowd.places.evict(newcomer)
        victim = crowd.ended[-1].network or ""
        assert sizes[victim] >= sizes[newcomer]
        sizes[victim] -= 1
        assert crowd.places.count(victim) == sizes[victim]
    assert not crowd.places.evict(newcomer)


async def test_silent_connections_of_many_networks_evict_no_caller() -> None:
    """A proxy with many callers has more connections than each of the silent networks."""
    crowd = Crowd()
    for _ in range(5):
        crowd.enter("proxy", is_answered=True)
    silent = [crowd.enter(network) for network in "abc"]
    for number in range(3):
        assert crowd.places.evict(f"new {number}")
    assert crowd.ended == silent


async def test_known_peers_and_requests_under_way_stay() -> None:
    crowd = Crowd()
    crowd.places.establish(crowd.enter("a"), is_known=True)
    crowd.enter("a", is_answered=True).phase = Phase.ANSWERING
    assert not crowd.places.evict("b")


@pytest.mark.parametrize(
    ("address", "network"),
    [
        ("10.0.0.1", "10.0.0.1"),
        ("2001:db8:0:1:2:3:4:5", "2001:db8:0:1:"),
        ("2001:db8:0:1:ffff:0:0:9", "2001:db8:0:1:"),
        ("2001:db8:0:2:2:3:4:5", "2001:db8:0:2:"),
        ("fe80:0:0:0:0:0:0:1%eth0", "fe80:0:0:0:eth0"),
    ],
)
def test_network_of_an_address(address: str, network: str) -> None:
    """One host may use every address of an IPv6 network of 64 bits."""
    assert network_of(address) == network
    assert new_limits().source_of(address) == network


def test_overridden_address_is_counted_by_itself() -> None:
    limits = new_limits(overrides={"2001:db8:0:1:2:3:4:5": 7})
    assert limits.source_of("2001:db8:0:1:2:3:4:5") == "2001:db8:0:1:2:3:4:5"
    assert limits.source_of("2001:db8:0:1:2:3:4:6") == "2001:db8:0:1:"


async def connect_from(address: str, port: int) -> trio.SocketStream:
    return await trio.open_tcp_stream("127.0.0.1", port, local_address=address)


@pytest.mark.parametrize(
    ("overrides", "taken"),
    [({}, 4), ({"127.0.0.2": 2}, 2), ({"127.0.0.2": 9}, 4), ({"127.0.0.3": 1}, 4)],
)
async def test_one_address_has_no_more_connections_than_its_limit(
    nursery: trio.Nursery, overrides: dict[str, int], taken: int
) -> None:
    """Loopback is limited only by an override; other addresses are not affected."""
    server = Server(connections_max=5)
    server.limits = new_limits(per_address=1, overrides=overrides)
    port = await serve_on_loopback(nursery, server)
    clients = [await connect_from("127.0.0.2", port) for _ in range(4)]
    answers = [await ask(client) for client in clients]
    assert answers == [HELLO] * taken + [b"too many"] * (4 - taken)
    seen = server.statistics
    assert (seen.connections_refused, seen.connections_refused_per_ip) == (4 - taken, 4 - taken)
    other = await connect_from("127.0.0.1", port)
    assert await ask(other) == HELLO
    await clients[0].aclose()
    with trio.fail_after(5):
        while server.statistics.connections_open > taken:
            await trio.testing.wait_all_tasks_blocked()
    again = await connect_from("127.0.0.2", port)
    assert await ask(again) == HELLO
    for client in (*clients, other, again):
        await client.aclose()
