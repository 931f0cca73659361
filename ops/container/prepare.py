"""Prepare the configuration and the log before the daemon starts in a container.

**Invariant:** a formatted log directory is never changed. A configuration may consist of several
parts, so that its secrets (passwords of SASL users) can be in a separate file.

    python -I -m authorizerd.container.prepare --config /run/authorizerd/server.properties PART…
"""

from __future__ import annotations

import argparse
import os
import re
import subprocess
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Final

from authorizerd.config.configuration import Configuration, parse
from authorizerd.config.errors import ConfigurationError
from authorizerd.config.keys import KEYS_BY_NAME, LISTENER_PREFIX
from authorizerd.config.providers import is_provider_key

ENCODING: Final = "iso-8859-1"
_PREFIX: Final = "KAFKA_"
_SEPARATORS: Final = {1: ".", 2: "_", 3: "-"}


def main(arguments: Sequence[str] | None = None) -> int:
    """Join the parts and format a new log directory; return 1 if either fails.

    Nothing is formatted if the daemon follows a cluster.
    """
    parser = argparse.ArgumentParser(prog="prepare", description=__doc__)
    parser.add_argument("--config", required=True, type=Path, help="file to write")
    parser.add_argument("--cluster-id", help="cluster id of a new log, random by default")
    parser.add_argument("parts", nargs="+", type=Path, metavar="PART")
    parsed = parser.parse_args(arguments)
    variables = find_kafka_variables(os.environ)
    if variables:
        for name in variables:
            instead = f"write {_read_key(name)}=… into {parsed.parts[0]}, and remove the variable"
            sys.stderr.write(f"prepare: {name}: has no effect in this image: {instead}\n")
        return 1
    try:
        configuration = join(parsed.parts, parsed.config)
    except (OSError, ConfigurationError) as error:
        for fault in error.faults if isinstance(error, ConfigurationError) else [error]:
            sys.stderr.write(f"prepare: {fault}\n")
        return 1
    log_dir = Path(configuration.metadata_log_dir)
    if configuration.follow is not None or (log_dir / "meta.properties").exists():
        return 0
    command = [Path(sys.executable).with_name("authorizerd"), "format", "--config", parsed.config]
    if parsed.cluster_id is not None:
        command += ["--cluster-id", parsed.cluster_id]
    return subprocess.run(command, check=False).returncode  # noqa: S603 - our own command


def find_kafka_variables(environment: Mapping[str, str]) -> list[str]:
    """Return the variables that set a key of the daemon in Kafka's images, but have no effect here.

    Kubernetes sets other variables with this prefix, such as ``KAFKA_SERVICE_HOST``, if a Service
    is named ``kafka``.
    """
    return sorted(
        name for name in environment if name.startswith(_PREFIX) and _is_known(_read_key(name))
    )


def _read_key(variable: str) -> str:
    """Return the key that a variable sets, by the naming rule of Kafka's and Confluent's images."""
    name = variable.removeprefix(_PREFIX).lower()
    return re.sub("___|__|_", lambda match: _SEPARATORS[len(match[0])], name)


def _is_known(key: str) -> bool:
    return key in KEYS_BY_NAME or is_provider_key(key) or key.startswith(LISTENER_PREFIX)


def join(parts: Sequence[Path], config: Path) -> Configuration:
    """Write the joined parts to ``config``, and return their content.

    Raises:
        OSError: a part cannot be read, or ``config`` cannot be written.
        ConfigurationError: the joined parts are not a valid configuration.
    """
    text = "".join(f"{part.read_text(ENCODING).rstrip()}\n" for part in parts)
    configuration = parse(text, source=str(config))
    written = config.with_name(f"{config.name}.part")
    written.unlink(missing_ok=True)
    descriptor = os.open(written, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    with open(descriptor, "w", encoding=ENCODING) as file:
        file.write(text)
    written.replace(config)
    return configuration


if __name__ == "__main__":
    sys.exit(main())
