"""Addresses as Java prints them."""

import re
from ipaddress import AddressValueError, IPv4Address, IPv6Address

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from authorizerd.acl.hosts import _ADDRESSES, HOSTS_CACHED, TEXT_CHARACTERS_MAX, host_address


@pytest.mark.parametrize(
    ("text", "printed"),
    [
        ("127.0.0.1", "127.0.0.1"),
        ("::1", "0:0:0:0:0:0:0:1"),
        ("::", "0:0:0:0:0:0:0:0"),
        ("2001:DB8::1", "2001:db8:0:0:0:0:0:1"),
        ("2001:0db8:0000:0000:0000:0000:0000:0001", "2001:db8:0:0:0:0:0:1"),
        ("::ffff:10.0.0.1", "10.0.0.1"),
        ("::ffff:a00:1", "10.0.0.1"),
        ("fe80::1%eth0", "fe80:0:0:0:0:0:0:1%eth0"),
        ("FEBF:0::1%4", "febf:0:0:0:0:0:0:1%4"),
        ("fe80::1%eth0.1-x", "fe80:0:0:0:0:0:0:1%eth0.1-x"),
    ],
)
def test_addresses_are_normalised_as_kafka_compares_them(text: str, printed: str) -> None:
    """IPv6 addresses have eight groups. IPv4-mapped addresses become IPv4 addresses."""
    assert host_address(text) == printed


@pytest.mark.parametrize(
    "text",
    [
        *("", "*", "localhost", "10.0.0", "10.0.0.0/8", "010.0.0.1", " 10.0.0.1", "::g", "1:2"),
        f"fe80::1%{'z' * 200}",
        *("2001:db8::9%", "2001:db8::9%x", "2001:db8::9%1", "2001:db8::9%\n", "::1%lo", "::%0"),
        *("fec0::1%eth0", "ff02::1%eth0", "::ffff:10.0.0.1%eth0", "10.0.0.1%eth0", "%eth0"),
        *("fe80::1%", "fe80::1% ", "fe80::1%eth 0", "fe80::1%a\n", "fe80::1%a\0", "fe80::1%a\x7f"),
        *("fe80::1%a/b", "fe80::1%a%b", "fe80::1%\u00e9", "fe80::1%\u202e", "fe80::1%\ud800"),
    ],
)
def test_texts_that_are_not_addresses_give_none(text: str) -> None:
    """Names are not resolved, and only link-local addresses have zones."""
    assert host_address(text) is None


OCTETS = st.integers(-1, 300).map(str) | st.sampled_from(["00", "01", "\u0663", "1\n", "", " 1"])


@given(st.lists(OCTETS, min_size=3, max_size=5).map(".".join))
@example("1.2.3.4\n")
def test_ipv4_addresses_are_those_of_the_standard_library(text: str) -> None:
    try:
        printed = str(IPv4Address(text))
    except AddressValueError:
        assert host_address(text) is None
    else:
        assert host_address(text) == printed


@given(st.integers(0, 2**128 - 1))
def test_normalising_an_address_is_idempotent(number: int) -> None:
    """Normalising twice changes nothing."""
    address = IPv6Address(number)
    printed = host_address(str(address))
    assert printed is not None
    assert address.ipv4_mapped or IPv6Address(printed) == address
    assert host_address(printed) == printed


@given(st.integers(0, 2**128 - 1), st.text(max_size=8))
def test_a_zone_never_hides_another_address(number: int, zone: str) -> None:
    """An address with a zone is invalid, or it is link-local and keeps the zone as sent."""
    address = IPv6Address(number)
    printed = host_address(f"{address}%{zone}")
    if not address.is_link_local:
        assert printed is None
    elif printed is not None:
        assert printed == f"{host_address(str(address))}%{zone}"
        assert re.fullmatch("[!-~]+", zone)
        assert host_address(printed) == printed


@given(st.integers(0, 2**118 - 1), st.text(st.characters(codec="ascii"), max_size=8))
def test_a_link_local_address_keeps_a_visible_zone(number: int, zone: str) -> None:
    """Any name of a network interface is a zone. Empty and invisible texts are not."""
    address = IPv6Address((0xFE80 << 112) | number)
    is_visible = zone != "" and all("!" <= character <= "~" for character in zone)
    if not is_visible or "%" in zone or "/" in zone:
        assert host_address(f"{address}%{zone}") is None
    else:
        assert host_address(f"{address}%{zone}") == f"{host_address(str(address))}%{zone}"


def test_cached_texts_are_bounded() -> None:
    """A long text is not kept at all."""
    for number in range(2 * HOSTS_CACHED):
        assert host_address(f"10.0.{number // 256}.{number % 256}") is not None
        assert len(_ADDRESSES) <= HOSTS_CACHED
    assert host_address("1" * (TEXT_CHARACTERS_MAX + 1)) is None
    assert "1" * (TEXT_CHARACTERS_MAX + 1) not in _ADDRESSES
