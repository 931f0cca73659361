"""Check everything around the configuration: files, ports, the log, the cluster, the machine."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from authorizerd.cli.doctor.access import examine_access
from authorizerd.cli.doctor.callers import examine_callers
from authorizerd.cli.doctor.disk import examine_disk
from authorizerd.cli.doctor.exposure import examine_console, examine_exposure
from authorizerd.cli.doctor.finding import Finding
from authorizerd.cli.doctor.log import examine_copied_log, examine_log
from authorizerd.cli.doctor.ports import examine_ports
from authorizerd.cli.doctor.releases import examine_releases
from authorizerd.cli.doctor.system import examine_clock, examine_limits, examine_versions
from authorizerd.config.configuration import Configuration
from authorizerd.metadata.lock import is_locked


def examine_machine() -> Iterator[Finding]:
    """Examine the clock and the installed packages."""
    yield from examine_clock()
    yield from examine_versions()


def examine_surroundings(config: Path, configuration: Configuration) -> Iterator[Finding]:
    """Examine everything that the configuration names.

    Args:
        config: the configuration's file.
    """
    log_dir = Path(configuration.metadata_log_dir)
    is_running = is_locked(log_dir)
    yield from examine_access(config, configuration)
    yield from examine_exposure(configuration)
    yield from examine_console(configuration)
    yield from _examine_certificates(configuration, is_running=is_running)
    yield from examine_ports(configuration, is_running=is_running)
    yield from examine_limits(configuration)
    yield from examine_disk(log_dir, is_copy=configuration.follow is not None)
    if configuration.follow is None:
        yield from examine_log(log_dir, configuration.node_id, is_running=is_running)
    else:
        yield from examine_copied_log(log_dir, configuration.node_id, is_running=is_running)
    yield from _examine_followed(configuration)
    yield from examine_callers(configuration)
    yield from examine_releases(configuration)


def _examine_certificates(configuration: Configuration, *, is_running: bool) -> Iterator[Finding]:
    if configuration.http_tls is None and not configuration.listener_tls:
        return
    # Here, because most daemons have no TLS, and its library takes long to load.
    from authorizerd.cli.doctor.certificates import examine_certificates

    yield from examine_certificates(configuration, is_running=is_running)


def _examine_followed(configuration: Configuration) -> Iterator[Finding]:
    if configuration.follow is None:
        return
    # Here, because Kafka's message definitions take longer to load than all checks of an own log.
    from authorizerd.cli.doctor.followed import examine_followed

    yield from examine_followed(configuration)
