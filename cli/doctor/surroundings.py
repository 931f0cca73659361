"""The checks of ``doctor`` beyond the configuration: its files and hosts, and the machine."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from authorizerd.cli.doctor import system
from authorizerd.cli.doctor.access import examine_access, examine_callers
from authorizerd.cli.doctor.exposure import examine_console, examine_exposure, examine_ports
from authorizerd.cli.doctor.finding import Finding
from authorizerd.cli.doctor.log import examine_copied_log, examine_log, examine_releases
from authorizerd.config.configuration import Configuration
from authorizerd.metadata.lock import is_locked


def examine_machine() -> Iterator[Finding]:
    """Examine the machine, independent of any configuration."""
    yield from system.examine_clock()
    yield from system.examine_versions()


def examine_surroundings(config: Path, configuration: Configuration) -> Iterator[Finding]:
    log_dir = Path(configuration.metadata_log_dir)
    is_running = is_locked(log_dir)
    yield from examine_access(config, configuration)
    yield from examine_exposure(configuration)
    yield from examine_console(configuration)
    if configuration.http_tls is not None or configuration.listener_tls:
        # Imported here, because most daemons have no TLS, and the TLS library takes long to load.
        from authorizerd.cli.doctor.certificates import examine_certificates

        yield from examine_certificates(configuration, is_running=is_running)
    if any(sasl.tokens is not None for sasl in configuration.sasl_listeners.values()):
        # Imported here for the same reason: it reads the issuer's keys over TLS.
        from authorizerd.cli.doctor.issuers import examine_issuers

        yield from examine_issuers(configuration)
    yield from examine_ports(configuration, is_running=is_running)
    yield from system.examine_limits(configuration)
    yield from system.examine_disk(log_dir, is_copy=configuration.follow is not None)
    if configuration.follow is None:
        yield from examine_log(log_dir, configuration.node_id, is_running=is_running)
    else:
        yield from examine_copied_log(log_dir, configuration.node_id, is_running=is_running)
    if configuration.follow is not None:
        # Imported here, because Kafka's messages take longer to load than all checks of a daemon's
        # own log.
        from authorizerd.cli.doctor.followed import examine_followed

        yield from examine_followed(configuration)
    yield from examine_callers(configuration)
    yield from examine_releases(configuration)
