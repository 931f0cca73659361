"""One node of a cluster: its directory, its configuration, its addresses and its process."""

from __future__ import annotations

import base64
import random
import shutil
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Final

from tests.kafka_rig.broker import CLUSTER_ID, Ports, server_properties
from tests.kafka_rig.cluster_settings import ClusterSettings
from tests.kafka_rig.process import KafkaProcess
from tests.kafka_rig.properties import find_lasting_ports, local_address, write_properties
from tests.kafka_rig.rig import Rig

METADATA_DIRECTORY: Final = "__cluster_metadata-0"

_RANDOM: Final = random.SystemRandom()


@dataclass(slots=True)
class Member:
    """A controller or a broker. Its configuration and logs are in ``directory``.

    Attributes:
        listeners: further listeners of this node alone, as in ``BrokerSettings``.
        more: lines of server.properties of this node alone.
    """

    node_id: int
    is_controller: bool
    directory_id: str
    directory: Path
    ports: Ports
    process: KafkaProcess
    listeners: dict[str, tuple[str, int]] = field(default_factory=dict)
    more: dict[str, str] = field(default_factory=dict)

    @property
    def log_dir(self) -> Path:
        return self.directory / "log"

    @property
    def metadata_dir(self) -> Path:
        """The directory of the metadata log, with its segments and checkpoints."""
        return self.log_dir / METADATA_DIRECTORY

    @property
    def config(self) -> Path:
        return self.directory / "server.properties"

    @property
    def controller(self) -> str:
        """A controller's address (``host:port``)."""
        return local_address(self.ports.controller)

    @property
    def sasl_plaintext(self) -> str:
        """A broker's address for clients that log in with SASL PLAIN."""
        return local_address(self.ports.sasl)

    @property
    def plaintext(self) -> str:
        """A broker's address for clients that do not log in."""
        return local_address(self.ports.plaintext)

    @property
    def address(self) -> str:
        """The address at which users log in: of a controller, or of a broker."""
        return self.controller if self.is_controller else self.sasl_plaintext

    def write_config(self, settings: ClusterSettings, bootstrap_controllers: str) -> None:
        """Write ``server.properties``, with the node's present ports."""
        more = settings.controller_more if self.is_controller else settings.broker_more
        node = settings.node
        properties = server_properties(
            self.log_dir,
            replace(
                node,
                roles=_role(self.is_controller),
                listeners={**node.listeners, **self.listeners},
                more={**node.more, **more, **self.more},
            ),
            self.ports,
            node_id=self.node_id,
            quorum={"controller.quorum.bootstrap.servers": bootstrap_controllers},
        )
        write_properties(self.config, properties)

    def copy_format(self, formatted: Member) -> None:
        """Make a formatted directory from a voter's: only the ids differ.

        A broker gets no metadata log, since the one that it will fetch has the voters.
        """
        ignored = () if self.is_controller else (METADATA_DIRECTORY,)
        shutil.copytree(formatted.log_dir, self.log_dir, ignore=shutil.ignore_patterns(*ignored))
        lines = (
            "version=1",
            f"cluster.id={CLUSTER_ID}",
            f"node.id={self.node_id}",
            f"directory.id={self.directory_id}",
        )
        self._meta_properties.write_text("".join(f"{line}\n" for line in lines))

    def read_directory_id(self) -> None:
        """Take the id that kafka-storage gave to the directory."""
        lines = self._meta_properties.read_text().splitlines()
        (line,) = (each for each in lines if each.startswith("directory.id="))
        # Java escapes some characters in properties files.
        self.directory_id = line.partition("=")[2].replace("\\", "")

    @property
    def _meta_properties(self) -> Path:
        return self.log_dir / "meta.properties"


def new_member(
    rig: Rig, directory: Path, settings: ClusterSettings, node_id: int, *, is_controller: bool
) -> Member:
    """Return a node that was neither formatted nor started, with ports and a directory."""
    name = f"{_role(is_controller)}-{node_id}"
    directory = directory / name
    directory.mkdir(parents=True, exist_ok=True)
    process = KafkaProcess(
        rig,
        directory,
        directory / "server.properties",
        name=name,
        jvm_options=settings.node.jvm_options,
        audit_level=settings.node.audit_level,
    )
    return Member(
        node_id=node_id,
        is_controller=is_controller,
        directory_id=_new_directory_id(),
        directory=directory,
        ports=Ports(*find_lasting_ports(3)),
        process=process,
    )


def _role(is_controller: bool) -> str:
    return "controller" if is_controller else "broker"


def _new_directory_id() -> str:
    """Return a random id as Kafka writes it: 22 characters, and no dash at the start."""
    while True:
        text = base64.urlsafe_b64encode(_RANDOM.randbytes(16)).decode().rstrip("=")
        if not text.startswith("-"):
            return text
