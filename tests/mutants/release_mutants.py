"""Mutants of the guards that find out by which Kafka releases' rules ACLs are judged."""

from __future__ import annotations

from typing import Final

from tests.mutants.mutant import Mutant

_JUDGING: Final = "tests/acl/test_release_in_force.py"
_QUORUM: Final = "tests/daemon/sources/quorum/test_releases.py"
_BROKERS: Final = "tests/daemon/sources/brokers/test_source.py"
_APPLIER: Final = "tests/actors/test_record_applier.py"

RELEASE_MUTANTS: Final = (
    Mutant(
        name="a node of an unknown level counts as one of 4.3",
        file="acl/releases.py",
        text="    if 0 <= level < _LEVEL_OF_4_4 - 1:\n",
        becomes="    if level < _LEVEL_OF_4_4 - 1:\n",
        found_by=f"{_JUDGING}::test_level_belongs_to_releases",
    ),
    Mutant(
        name="a release that was not tested counts as 4.4",
        file="acl/releases.py",
        text="    if _LEVEL_OF_4_4 <= level <= NEWEST_LEVEL:\n",
        becomes="    if _LEVEL_OF_4_4 <= level:\n",
        found_by=f"{_JUDGING}::test_level_belongs_to_releases",
    ),
    Mutant(
        name="a newer node is judged like the others",
        file="acl/release_in_force.py",
        text="if level > NEWEST_LEVEL]",
        becomes="if level < 0]",
        found_by=f"{_JUDGING}::test_newer_release_is_named_and_may_be_like_any",
    ),
    Mutant(
        name="a controller that votes and has not registered is overlooked",
        file="acl/release_in_force.py",
        text="    for node_id in sorted(voters or ()):\n",
        becomes="    for node_id in ():\n",
        found_by=f"{_JUDGING}::test_rules_and_their_reason",
    ),
    Mutant(
        name="a quorum without registered controllers has none",
        file="acl/release_in_force.py",
        text="    if evidence is Evidence.QUORUM and not any(",
        becomes="    if evidence is Evidence.OWN_LOG and not any(",
        found_by=f"{_JUDGING}::test_rules_and_their_reason",
    ),
    Mutant(
        name="a controller that votes no longer keeps a mix",
        file="acl/release_in_force.py",
        text="if not is_controller or voters is None or node_id in voters",
        becomes="if node_id is not None",
        found_by=f"{_JUDGING}::test_rules_and_their_reason",
    ),
    Mutant(
        name="a state keeps the rules of the one before it",
        file="actors/published_state.py",
        text="        snapshot = with_rules(snapshot, self._release.newest.rules)\n",
        becomes=(
            "        snapshot = with_rules(snapshot, self._release.newest.rules) if"
            " not self._is_loaded else snapshot\n"
        ),
        found_by=f"{_APPLIER}::test_each_state_has_the_rules_of_its_own_image",
    ),
    Mutant(
        name="decisions go on at a newer release although they must stop",
        file="actors/published_state.py",
        text='        untested = UNTESTED if release.newer and self._stops_if_newer else ""\n',
        becomes='        untested = ""\n',
        found_by=f"{_APPLIER}::test_newer_release_stops_decisions_if_it_is_set",
    ),
    Mutant(
        name="decisions resume although a newer release has stopped them",
        file="actors/published_state.py",
        text="        return self._suspended or self._untested\n",
        becomes="        return self._suspended\n",
        found_by=f"{_APPLIER}::test_newer_release_stops_decisions_if_it_is_set",
    ),
    Mutant(
        name="a registration of a later version is skipped",
        file="protocol/records/nodes.py",
        text="    level = _read_level(data, start, end)\n",
        becomes=(
            "    level = _read_level(data, start, end)\n    if level == UNKNOWN_LEV"
            "EL:\n        return None\n"
        ),
        found_by=(
            "tests/protocol/records/test_nodes.py::test_registration_that_says_no_l"
            "evel_is_one_of_an_unknown_level"
        ),
    ),
    Mutant(
        name="a worker does not get the registrations",
        file="protocol/worker_changes.py",
        text='                yield "registered", (int(is_controller), id, level)\n',
        becomes="                continue\n",
        found_by="tests/protocol/test_worker_feed.py::test_worker_learns_what_proves_the_releases",
    ),
    Mutant(
        name="a copy's checkpoint loses the registrations",
        file="metadata/checkpoint_writer.py",
        text="    for node in cluster.nodes.values() if state.keeps_nodes else ():\n",
        becomes="    for node in ():\n",
        found_by=(
            "tests/metadata/test_checkpoint_writer.py::test_only_a_checkpoint_of_a_"
            "copy_keeps_registrations"
        ),
    ),
    Mutant(
        name="a broker that cannot be reached keeps its last level",
        file="daemon/sources/brokers/release_probe.py",
        text=(
            "        except (ConnectionFailedError, RequestFailedError):\n         "
            "   await _close(watched)\n"
        ),
        becomes="        except (ConnectionFailedError, RequestFailedError):\n            pass\n",
        found_by=f"{_BROKERS}::test_the_rules_follow_an_upgrade_of_the_brokers",
    ),
    Mutant(
        name="a broker that the cluster names no longer is forgotten at once",
        file="daemon/sources/brokers/release_probe.py",
        text="named_at > FORGOTTEN_SECONDS:",
        becomes="named_at > 0:",
        found_by=f"{_BROKERS}::test_broker_that_left_counts_for_a_while",
    ),
    Mutant(
        name="a served copy is judged by before brokers were asked",
        file="daemon/sources/brokers/source.py",
        text=(
            "            await applier.send(ChangeBatch(copy.last_offset, cluster_changes=found))\n"
        ),
        becomes="",
        found_by=f"{_BROKERS}::test_first_decision_knows_the_releases",
    ),
    Mutant(
        name="a change of releases without a change of ACLs is not published",
        file="daemon/sources/brokers/source.py",
        text="if changes or releases or self._copy.high_watermark is None:",
        becomes="if changes or self._copy.high_watermark is None:",
        found_by=f"{_BROKERS}::test_the_rules_follow_an_upgrade_of_the_brokers",
    ),
)
