"""The example configurations that follow a cluster: as they are, and without the comment signs."""

import re
from pathlib import Path

import pytest

from authorizerd.cli import import_config
from authorizerd.config.configuration import parse
from authorizerd.config.follow.settings import FollowSettings
from tests.ops.container.servers import SECRET

OPS = Path(__file__).parents[2] / "ops"
COMMENT = re.compile(r"^#   (?=[a-z ])", re.MULTILINE)
BASE = f"{(OPS / 'container/config/server.properties').read_text()}\n{SECRET}\n"


def read(text: str) -> FollowSettings:
    configuration = parse(text, source="example")
    assert configuration.ignored_keys == ()
    assert configuration.metadata_log_dir == import_config.LOG_DIR
    assert configuration.follow is not None
    return configuration.follow


@pytest.mark.parametrize("name", ["follow-quorum", "follow-brokers"])
def test_systemd_example_follows_a_cluster(name: str) -> None:
    text = (OPS / f"systemd/{name}.properties").read_text()
    assert read(text).log_in is None
    lines = [line for line in text.splitlines() if not line.startswith("#")]
    read("\n".join(lines[:3]))
    followed = read(COMMENT.sub("", text).replace("cluster.id=...", "cluster.id=x"))
    assert followed.log_in is not None
    assert followed.log_in.mechanism == "SCRAM-SHA-512"
    assert followed.tls is not None


@pytest.mark.parametrize("name", ["follow-quorum", "follow-brokers"])
def test_container_example_is_a_part_after_the_others(name: str) -> None:
    text = BASE + (OPS / f"container/config/{name}.properties").read_text()
    follow = read(COMMENT.sub("", text))
    assert follow.log_in is not None
    assert len(follow.servers) == 2
