"""Random hosts of clients and of ACLs: addresses, ranges of addresses, and texts that look alike.

Most ranges and addresses of a case are near its clients, so that about half of them match.
"""

from collections.abc import Sequence
from contextlib import suppress
from ipaddress import IPv4Address, IPv6Address, ip_address, ip_network
from random import Random
from typing import Final, TypeAlias

from authorizerd.acl.hosts import host_address

Address: TypeAlias = IPv4Address | IPv6Address

CLIENTS: Final = (
    "127.0.0.1", "127.9.9.9", "10.0.0.0", "10.0.0.1", "10.0.0.10", "10.1.2.3", "10.255.255.255",
    "11.0.0.1", "0.0.0.0", "0.0.0.1", "255.255.255.255", "127.255.255.255", "128.0.0.0",
    "192.168.1.1", "1.2.3.4", "::1", "::", "::2", "::10.0.0.1", "::ffff:10.0.0.1",
    "::ffff:0.0.0.0", "::fffe:10.0.0.1", "2001:db8::1", "2001:db8:1::5", "2001:db9::1", "fe80::1",
    "fe80::1%1", "fe80::1%2", "febf::5%1", "fec0::1", "64:ff9b::10.0.0.1", "2002:a00:1::",
    "ffff:ffff:ffff:ffff:ffff:ffff:ffff:ffff", "7fff::", "8000::", "ff02::1",
)  # fmt: skip
ODD_HOSTS: Final = (
    "", " ", "localhost", "*.*", "**", "/", "//", "/8", "/0", "a/b", "*/0", "*/8", "::1",
    "2001:db8::1", "010.0.0.1", "10.0.0.01", "10.1", "167772161", "0x0a000001", "10.0.0.1%1",
    "[::1]", "10.0.0.1 ", "10.1.2.3/8", "10.0.0.0/31", "10.0.0.0/32", "0.0.0.0/0", "0.0.0.0/1",
    "0.0.0.0/32", "1.2.3.4/0", "255.255.255.255/32", "255.255.255.255/0", "128.0.0.0/1", "::/0",
    "::/1", "8000::/1", "::/128", "::1/128", "::ffff:10.0.0.0/104", "::FFFF:10.0.0.1/128",
    "::ffff:0:0/96", "::/96", "::10.0.0.0/104", "0:0:0:0:0:ffff:a00:1/128", "[2001:db8::]/+32",
    "[::1]/128", "[10.0.0.0]/8", "[::]/0", "[::/0]", "2001:db8::/\u0663\u0662",
    "2001:db8::/\uff13\uff12", "2001:db8::/\U0001d7d1\U0001d7d0", "\u0661\u0660.0.0.0/8",
    "10.0.0.0/\u0668", "10.0.0.0/33", "10.0.0.0/032", "10.0.0.0/", "10.0.0.0", "10.0.0/8", "10/8",
    "10.0.0.0/8/8", "010.0.0.0/8", "10.0.0.256/8", "10.0.0.0/-1", "10.0.0.0/+8", "10.0.0.0/08",
    "10.0.0.0/008", "10.0.0.0 /8", " 10.0.0.0/8", "10.0.0.0/8 ", "10.0.0.0/8\n", "10.0.0.0/ 8",
    "10.0.0.0/255.0.0.0", "10.0.0.0 255.0.0.0", "2001:db8::/129", "2001:db8::/128",
    "2001:db8::/-0", "2001:db8::/-1", "2001:db8::/+0", "2001:db8::/0x20", "2001:db8::/",
    "2001:db8::/32/", "2001:db8::/32/32", "2001:db8::/ 32", "2001:db8::/32 ", "2001:DB8::/32",
    "2001:0db8::/032", "2001:00db8::/32", "2001:db8:0:0:0:0:0:0:0/32", "2001:db8:::/32",
    "2001:db8/32", ":/0", ":::/0", "::%/0", "::%1/0", "fe80::%eth0/64", "fe80::%1/10",
    "fe80::%lo/10", "fe80::1%1/128", "fe80::/10", "fe80::/64", "2001:db8::%1/32",
    "2001:db8::%eth0/32", "2001:db8::%lo/0", "::%lo/0", "2001:db8::/32%1", "2001:db8::/4294967328",
    "10.0.0.0/4294967304", "::/00", "1.2.3.4:5/0", "10.0.0.0:/8", "::10.0.0/104",
    "::010.0.0.0/104", "::ffff:10.0.0.256/104", "::g/0",
)  # fmt: skip
_INSERTED: Final = "+-0189 .:/%[]*gfx\t\n\u0660\u0663\uff11\U0001d7d1\u00b2\u3000\x00"
_DIGIT_ZEROS: Final = (0x660, 0x6F0, 0x966, 0xFF10, 0x1D7CE, 0x104A0)
"""The digits 0 of other scripts. Java reads some of them where it parses a number."""
_EDGES: Final = (0, 1, 7, 8, 9, 16, 24, 31, 32, 33, 63, 64, 65, 95, 96, 104, 127, 128)


def depends_on_broker(acl_host: str) -> bool:
    """Return True if a range names a network interface, which a broker has or not."""
    zone = acl_host.partition("/")[0].partition("%")
    return bool(zone[1]) and "/" in acl_host and not zone[2].rstrip("]").isdecimal()


def draw_clients(random: Random) -> list[str]:
    """Return the addresses of a case's clients. Some are equal, written otherwise."""
    clients = random.sample(CLIENTS, 3)
    clients.append(str(_near(random, _parse(clients[0]), random.choice(_EDGES))))
    if random.random() < 0.3:
        clients.append(str(IPv4Address(random.getrandbits(32))))
    if random.random() < 0.3:
        clients.append(str(IPv6Address(random.getrandbits(128))))
    return clients


def draw_acl_hosts(random: Random, clients: Sequence[str]) -> list[str]:
    """Return the hosts of a case's ACLs, beside ``*``."""
    drawn = [_draw_acl_host(random, random.choice(clients)) for _ in range(random.randint(2, 7))]
    # A broker may read these or not, and the daemon trusts them.
    return [host for host in drawn if not (depends_on_broker(host) and "fe" in host.lower())] or [
        ""
    ]


def draw_edges(random: Random, acl_hosts: Sequence[str]) -> list[str]:
    """Return addresses at the edges of ranges: just inside, or just outside."""
    edges: list[str] = []
    for host in acl_hosts:
        with suppress(ValueError):  # not a range, or without such a neighbour
            network = ip_network(host, strict=False)
            edge = random.choice((network.network_address, network.broadcast_address))
            edges.append(str(edge + random.choice((-1, 0, 1))))
    return edges


def _draw_acl_host(random: Random, client: str) -> str:
    kind = random.random()
    if kind < 0.15:
        return random.choice(ODD_HOSTS)
    if kind < 0.3:
        return host_address(client) or client
    address = _parse(client)
    if kind < 0.35:
        return _write(random, address)
    bits = address.max_prefixlen
    length = min(bits, random.choice(_EDGES)) if random.random() < 0.5 else random.randint(0, bits)
    near = _near(random, address, length)
    text = f"{_write(random, near)}/{length}"
    return text if random.random() < 0.7 else _damage(random, text)


def _parse(client: str) -> Address:
    return ip_address(client.partition("%")[0])


def _near(random: Random, address: Address, length: int) -> Address:
    """Return an address that shares about ``length`` bits: fewer, the same, or one more."""
    bits = address.max_prefixlen
    shared = max(0, min(bits, length + random.choice((-1, 0, 0, 0, 0, 1))))
    return type(address)(int(address) ^ random.getrandbits(bits + 1) >> 1 + shared)


def _write(random: Random, address: Address) -> str:
    """Return the address as people write it."""
    if isinstance(address, IPv4Address):
        octets = str(address)
        return octets if random.random() < 0.8 else f"::{random.choice(('', 'ffff:'))}{octets}"
    groups = [f"{int(address) >> shift & 0xFFFF:x}" for shift in range(112, -1, -16)]
    written = random.choice(
        (
            str(address),
            str(address),
            address.exploded,
            ":".join(groups),
            str(address).upper(),
            f"{':'.join(groups[:6])}:{IPv4Address(int(address) & 0xFFFF_FFFF)}",
            f"[{address}]",
            f"{address}%{random.choice(('1', '2', 'lo', 'eth0', ''))}",
        )
    )
    return written if random.random() < 0.9 else written.replace("0:0", "0000:0", 1)


def _damage(random: Random, text: str) -> str:
    """Return the text with one or two faults, some of which Java does not mind."""
    for _ in range(random.choice((1, 1, 2))):
        place = random.randrange(len(text) + 1)
        match random.randrange(6):
            case 0:
                text = text[:place] + text[place + 1 :]
            case 1 | 2:
                text = text[:place] + random.choice(_INSERTED) + text[place:]
            case 3:
                text = text[:place] + text[place : place + 1] * 2 + text[place + 1 :]
            case 4:
                address, slash, length = text.rpartition("/")
                text = address + slash + random.choice(("+", "-", "0", "00", " ")) + length
            case _:
                zero = random.choice(_DIGIT_ZEROS)
                head, slash, length = text.rpartition("/")
                text = head + slash + length.translate({48 + n: zero + n for n in range(10)})
    return text
