"""The header names the cluster, and what is not known or not shown is never shown as none."""

from pathlib import Path
from types import SimpleNamespace
from typing import cast

import pytest

from authorizerd.acl.release_in_force import ReleaseInForce
from authorizerd.acl.releases import ANY_RELEASE, RULES_4_3, RULES_4_4, ReleaseRules
from authorizerd.actors.published import Published
from authorizerd.config.configuration import parse
from authorizerd.config.dynamic import Layers
from authorizerd.daemon.console.cluster import (
    SUPER_USERS_MAX,
    describe_cluster,
    describe_super_users,
)
from authorizerd.daemon.telemetry.metric_sources import MetricSources
from tests.daemon.console.console_place import CONFIGURATION, EXPLAIN, ConsolePlace
from tests.daemon.console.page_check import HOSTILE, check_page
from tests.daemon.decision_place import ROOT


def sources_of(place: ConsolePlace, rules: ReleaseRules = RULES_4_4) -> MetricSources:
    applier = SimpleNamespace(release=Published(ReleaseInForce(rules, "a reason")))
    origin = SimpleNamespace(cluster_id="cluster-1")
    found = SimpleNamespace(authorizer=place.authorizer, applier=applier, origin=origin)
    return cast(MetricSources, found)


def place_of(folder: Path | None, super_users: str) -> ConsolePlace:
    place = ConsolePlace(folder)
    place.authorizer.configure({"super.users": super_users})
    return place


@pytest.mark.parametrize(
    ("rules", "release"),
    [
        (RULES_4_3, "rules of Kafka 3.9 to 4.3"),
        (RULES_4_4, "rules of Kafka 4.4"),
        (ANY_RELEASE, "rules of Kafka 3.9 to 4.3 or 4.4: not known which"),
    ],
)
async def test_releases_in_force_are_named(rules: ReleaseRules, release: str) -> None:
    found = describe_cluster(CONFIGURATION, sources_of(ConsolePlace(None), rules))
    assert (found.name, found.id, found.release) == ("", "cluster-1", release)


@pytest.mark.parametrize("name", HOSTILE[:4])
async def test_header_names_the_cluster_to_known_visitors_only(name: str, tmp_path: Path) -> None:
    text = f"node.id=1\nlog.dirs=/log\nauthorizerd.console.name={name}\n"
    place = ConsolePlace(tmp_path, configuration=parse(text, source="test"))
    _, page = await place.get(EXPLAIN, "root")
    assert f"Cluster {name} cluster-1, rules of Kafka 4.4" in check_page(page)
    _, page = await place.get(EXPLAIN)
    assert "cluster-1" not in page


@pytest.mark.parametrize(
    ("layers", "origin"),
    [
        (Layers(file={"super.users": "User:b"}), "from the configuration file"),
        (
            Layers(file={"super.users": "User:b"}, since_reload={"super.users": "User:a;User:b"}),
            "set by a client since the file was read",
        ),
        (Layers(file={}), "super.users is not set"),
        # The log cannot name super users.
        (Layers(file={}, node={"super.users": "User:eve"}), "super.users is not set"),
    ],
)
async def test_super_users_have_an_origin(layers: Layers, origin: str) -> None:
    place = place_of(None, "User:b;User:a")
    caller = place.callers.identify(None)
    assert caller is not None
    found = describe_super_users(sources_of(place), lambda: layers, caller)
    assert (found.names, found.others, found.origin) == (("User:a", "User:b"), 0, origin)


async def test_only_the_first_super_users_are_named() -> None:
    place = place_of(None, ";".join(f"User:{number:04}" for number in range(5000)))
    caller = place.callers.identify(None)
    assert caller is not None
    found = describe_super_users(sources_of(place), lambda: Layers(file={}), caller)
    assert found.names == tuple(f"User:{number:04}" for number in range(SUPER_USERS_MAX))
    assert found.others == 5000 - SUPER_USERS_MAX


async def test_visitor_without_the_right_sees_no_super_users(tmp_path: Path) -> None:
    """The page says that they are not shown, not that there are none."""
    place = place_of(tmp_path, ROOT)
    caller = place.callers.identify(b"other.secret")
    assert caller is not None
    found = describe_super_users(sources_of(place), lambda: Layers(file={}), caller)
    assert found.names is None
    assert found.origin.startswith("not shown: User:other may not search")
