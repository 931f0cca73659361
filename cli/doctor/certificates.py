"""Check the certificates of all ports: their stores, dates and hosts, and the served certificates.

**Invariant:** no key or password is shown. A running daemon is asked for its certificates in a
handshake; nothing else is sent.
"""

from __future__ import annotations

import os
import stat
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from ipaddress import ip_address
from typing import Final

import trio

from authorizerd.cli.doctor.exposure import list_own_ports
from authorizerd.cli.doctor.finding import Finding, error, ok, warning
from authorizerd.config.configuration import Configuration
from authorizerd.config.tls import Store, TlsSettings
from authorizerd.config.values import TLS_PROTOCOLS
from authorizerd.kafka_client.address import Address
from authorizerd.kafka_client.certificate_faults import read_host_names
from authorizerd.kafka_client.tls_stream import fetch_certificate
from authorizerd.kafka_client.transport import open_tcp
from authorizerd.tls.context import new_client_context
from authorizerd.tls.errors import StoreError
from authorizerd.tls.material import Material, Validity, describe_certificate, read_material
from authorizerd.tls.server import prepare_tls

EXPIRY_WARNING: Final = timedelta(days=30)

_CHECK: Final = "certificates"
_TIME: Final = "%Y-%m-%d %H:%M UTC"
_RENEW: Final = "renew the certificate, replace the file, and send SIGHUP to the daemon"


@dataclass(frozen=True, slots=True, kw_only=True)
class SecuredPort:
    """A port with TLS. ``key`` sets its address; ``advertised`` is the host that clients use."""

    key: str
    settings: TlsSettings
    host: str | None
    port: int
    advertised: str | None = None


def examine_certificates(
    configuration: Configuration, *, is_running: bool, now: datetime | None = None
) -> Iterator[Finding]:
    """Examine the stores of every port with TLS, and the certificates that a daemon serves."""
    examined: set[int] = set()
    for port in _list_ports(configuration):
        if id(port.settings) not in examined:  # our own ports share their settings
            yield from _examine_files(port.settings)
        examined.add(id(port.settings))
        yield from _examine_port(port, now or datetime.now(UTC), is_running=is_running)


def _list_ports(configuration: Configuration) -> Iterator[SecuredPort]:
    advertised = {
        advertised_listener.listener_name: advertised_listener.host
        for advertised_listener in configuration.advertised_listeners
    }
    for listener in configuration.listeners:
        if listener.security_protocol in TLS_PROTOCOLS:
            yield SecuredPort(
                key=f"listeners: {listener.listener_name}",
                settings=configuration.listener_tls[listener.listener_name],
                host=listener.host,
                port=listener.port,
                advertised=advertised.get(listener.listener_name),
            )
    for key, endpoint in list_own_ports(configuration):
        if endpoint.is_tls:
            assert configuration.http_tls is not None, "a port has TLS"
            yield SecuredPort(
                key=f"authorizerd.{key}",
                settings=configuration.http_tls,
                host=endpoint.host,
                port=endpoint.port,
            )


def examine_client_stores(settings: TlsSettings, now: datetime) -> Iterator[Finding]:
    key = "connections to the cluster"
    yield from _examine_files(settings)
    try:
        material = read_material(settings)
        new_client_context(settings, material)
        chain = [describe_certificate(each) for each in material.chain]
        trusted = [describe_certificate(each) for each in material.trusted]
    except StoreError as fault:
        yield error(_CHECK, f"{key}: {fault}", "correct the key or the file that is named")
        return
    for each in chain[:1]:
        yield _judge_dates(key, "certificate", each, now, error)
    for each in (*chain[1:], *trusted):
        yield from _report_problem(_judge_dates(key, "CA certificate", each, now, warning))


def _examine_files(settings: TlsSettings) -> Iterator[Finding]:
    keystore, truststore = settings.keystore, settings.truststore
    if keystore is not None:
        yield from _examine_mode(keystore, stat.S_IROTH, "read the private key", "o-rw")
    for store in (keystore, truststore):
        if store is not None:
            yield from _examine_mode(store, stat.S_IWOTH, "replace the certificates", "o-w")


def _examine_mode(store: Store, mode: int, deed: str, remedy: str) -> Iterator[Finding]:
    if store.location is None:
        return
    try:
        found = os.stat(store.location).st_mode
    except OSError:
        return  # reading the store reports it
    if found & mode:
        text = f"{store.key_name}: {store.location}: every user may {deed}"
        advice = f"chmod {remedy} {store.location}"
        if mode == stat.S_IROTH:
            advice += ", and replace the key and its certificate"
        yield error(_CHECK, text, advice)


def _examine_port(port: SecuredPort, now: datetime, *, is_running: bool) -> Iterator[Finding]:
    try:
        material = read_material(port.settings)
        prepare_tls(port.settings, material)
        chain = [describe_certificate(each) for each in material.chain]
        trusted = [describe_certificate(each) for each in material.trusted]
    except StoreError as fault:
        yield error(_CHECK, f"{port.key}: {fault}", "correct the key or the file that is named")
        return
    yield _judge_dates(port.key, "certificate", chain[0], now, error)
    for each in chain[1:]:
        yield from _report_problem(_judge_dates(port.key, "CA certificate", each, now, error))
    for each in trusted:
        finding = _judge_dates(port.key, "truststore's certificate", each, now, warning)
        yield from _report_problem(finding)
    yield from _examine_host(port, material)
    if is_running and port.port:
        yield _examine_served(port, chain[0])


def _report_problem(finding: Finding) -> Iterator[Finding]:
    if finding.advice:
        yield finding


def _judge_dates(
    key: str,
    what: str,
    validity: Validity,
    now: datetime,
    expired: Callable[[str, str, str], Finding],
) -> Finding:
    """Check the dates of a certificate; ``expired`` returns the finding if it is not valid now."""
    named = (
        f"{key}: {what} {validity.subject}, issuer {validity.issuer}, serial {validity.serial_text}"
    )
    if validity.not_after <= now:
        return expired(_CHECK, f"{named}, expired on {validity.not_after:{_TIME}}", _RENEW)
    if validity.not_before > now:
        advice = "check the clock of this machine, or wait until then"
        return expired(_CHECK, f"{named}, is valid only from {validity.not_before:{_TIME}}", advice)
    text = f"{named}, expires on {validity.not_after:{_TIME}}"
    if validity.not_after - now < EXPIRY_WARNING:
        return warning(_CHECK, f"{text}, in {(validity.not_after - now).days} days", _RENEW)
    return ok(_CHECK, text)


def _examine_host(port: SecuredPort, material: Material) -> Iterator[Finding]:
    """Warn if the certificate is not for the advertised host, since clients then reject it."""
    names = read_host_names(material.chain[0])
    if port.advertised and not any(is_name_of(name, port.advertised) for name in names):
        text = f"{port.key}: {port.advertised} is advertised, but the certificate is for"
        advice = "issue a certificate for this host, or correct advertised.listeners"
        yield warning(_CHECK, f"{text} {', '.join(names) or 'no host'}", advice)


def is_name_of(name: str, host: str) -> bool:
    """Return True if a certificate's name, perhaps with a wildcard label, matches a host."""
    try:
        return ip_address(name) == ip_address(host)
    except ValueError:
        pass
    name, host = name.lower().rstrip("."), host.lower().rstrip(".")
    if name.startswith("*."):
        return host.partition(".")[2] == name.removeprefix("*.")
    return name == host


def _examine_served(port: SecuredPort, configured: Validity) -> Finding:
    """Compare the certificate that the running daemon serves with the one in the file."""
    address = Address(port.host or "localhost", port.port)
    served = trio.run(fetch_certificate, address, open_tcp)
    if served is None:
        text = f"{port.key}: {address} shows no certificate"
        return warning(_CHECK, text, "check whether the daemon runs with this configuration")
    try:
        found = describe_certificate(served)
    except StoreError as fault:
        return error(_CHECK, f"{port.key}: {address}: {fault}", _RENEW)
    if found.serial != configured.serial:
        text = f"{port.key}: {address} serves a different certificate, serial {found.serial_text}"
        advice = (
            "send SIGHUP to the daemon; if it keeps the old one, read its log, and check whether "
            "AlterConfigs has set a different keystore"
        )
        return warning(_CHECK, text, advice)
    return ok(_CHECK, f"{port.key}: {address} serves this certificate")
