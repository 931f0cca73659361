"""Addresses as Java prints them."""

from __future__ import annotations

from ipaddress import IPv6Address

import pytest
from hypothesis import given
from hypothesis import strategies as st

from acl.hosts import host_address


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
    ],
)
def test_an_address_reads_as_kafka_compares_it(text: str, printed: str) -> None:
    """IPv6 in eight groups, never compressed; IPv4-mapped as IPv4."""
    assert host_address(text) == printed


@pytest.mark.parametrize(
    "text",
    [
        *("", "*", "localhost", "10.0.0", "10.0.0.0/8", "010.0.0.1", " 10.0.0.1", "::g", "1:2"),
        f"::1%{'z' * 200}",
    ],
)
def test_what_is_no_address_is_none(text: str) -> None:
    """A name or a network is not looked up and not guessed at."""
    assert host_address(text) is None


@given(st.integers(0, 2**128 - 1))
def test_a_printed_address_prints_as_itself(number: int) -> None:
    """So a host that was normalised once stays as it is."""
    printed = host_address(str(IPv6Address(number)))
    assert printed is not None
    assert host_address(printed) == printed
