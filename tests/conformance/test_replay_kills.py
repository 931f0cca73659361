"""Ingests that are killed at any step leave a table as it was, or as it was to be.

The tables are on a disk, without Spark, and below viewfs, in HDFS and in S3. ``WHOLE=1`` tries 200
schedules of each kind.
"""

import random
import re
import sys
from collections import Counter
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import NamedTuple

import pytest

from authorizerd.replay.ingest.commit import TableError
from tests.conformance.conftest import ROOT
from tests.conformance.ingest_kills import CUT, WAYS, Ingest, count_steps, cut_off, kill
from tests.conformance.ingest_model import (
    Content,
    Line,
    expect_content,
    find_left,
    make_lines,
    read_content,
    write_log,
)
from tests.conformance.ingest_places import DISK, Place, Places, running_places
from tests.conformance.ingest_steps.sitecustomize import STEPS
from tests.conformance.s3_proxy import running_proxy
from tests.conformance.s3_server import PROGRAM, is_installed, running_s3
from tests.kafka_rig.rig import DIRECTORY, SOURCES, Absent, Rig, prepare
from tests.support.sizes import size
from tests.support.spark import require_spark

SCHEDULES = size(20, 200)
CUT_SHARE = 0.6
"""The share of the schedules without a signal, each of which takes seconds."""
_KINDS = {
    "removal": r" (delete|DELETE|os\.remove|os\.rmdir|POST) (?!.*_temporary)",
    "commit": r"/commits/",
    "totals": r"ingest\.json",
    "events": r"/events/",
    "set aside": r"/set_aside/",
    "tuples": r"/tuples/",
}


class Story(NamedTuple):
    """An ingest, and what the table contains before it, after it, and after one log more."""

    name: str
    logs: tuple[str, ...]
    before: Content | None
    after: Content
    last: Content
    overwrite: bool = False


class Schedule(NamedTuple):
    """The step at which an ingest is killed, and how."""

    number: int
    place: Place
    story: Story
    step: int
    path: str
    way: str

    def __str__(self) -> str:
        return f"{self.number}: {self.place.name}, {self.story.name}: {self.way} at {self.path}"


@contextmanager
def collecting(failures: list[str], schedule: object) -> Iterator[None]:
    """Note a failure with its schedule, and go on with the next one."""
    try:
        yield
    except Exception as error:  # noqa: BLE001 - the test reports all of them
        failures.append(f"{schedule}: {type(error).__name__}: {error}")
        sys.stdout.write(f"FAILED {failures[-1]}\n")


@pytest.fixture(scope="module")
def rig() -> Rig:
    require_spark()
    prepared = prepare(ROOT / DIRECTORY, SOURCES / "cluster_files")
    if isinstance(prepared, Absent):
        pytest.skip(f"no file systems of clusters: {prepared.reason}")
    return prepared


def hear(method: str, path: str) -> None:
    if STEPS.counts(path):
        STEPS.reach("s3", method, path)


def hear_answered(method: str, path: str) -> None:
    """Lose the answer to a request that ``lost`` names, once."""
    for text in [text for text in lost if method == "PUT" and path.split("?")[0].endswith(text)]:
        lost.remove(text)
        raise OSError(text)


lost: list[str] = []


@pytest.fixture(scope="module")
def disk(tmp_path_factory: pytest.TempPathFactory) -> Places:
    return Places(tmp_path_factory.mktemp("places"))


@pytest.fixture(scope="module")
def clusters(rig: Rig, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Places]:
    folder = tmp_path_factory.mktemp("places")
    with ExitStack() as stack:
        port = None
        if is_installed():
            server = stack.enter_context(running_s3(folder))
            port = stack.enter_context(running_proxy(server, hear, hear_answered))
        yield stack.enter_context(running_places(rig, folder, port))


class Bench:
    """The logs, the stories, and a table to start from."""

    def __init__(self, places: Places, folder: Path, rng: random.Random) -> None:
        self.places = places
        self.folder = folder
        self.rng = rng
        self._steps: dict[tuple[str, str], list[str]] = {}
        base = [make_lines(rng, hour, 12, bad=2 if hour == 3 else 0) for hour in range(5)]
        more = make_lines(rng, 5, 12, bad=2)
        grown = [*base[4], *make_lines(rng, 6, 4)]
        extra = make_lines(rng, 7, 5)
        self._write("more", more)
        self._write("grown", grown)
        self._write("extra", extra)
        of_base = [line for lines in base for line in lines]
        known = expect_content(of_base)

        def story(
            name: str, logs: tuple[str, ...], before: list[Line], added: list[Line], **options: bool
        ) -> Story:
            after = [*before, *added]
            return Story(
                name, logs, known if before or options else None,
                expect_content(after), expect_content([*after, *extra]), **options,
            )  # fmt: skip

        self.stories = [
            story("first", ("more",), [], more),
            story("more", ("base", "more"), of_base, more),
            story("grown", ("base", "grown"), of_base, grown[len(base[4]) :]),
            story("overwritten", ("more",), [], more, overwrite=True),
        ]
        start = self.ingest(Place(DISK, str(folder), {}), "start", ("base",))
        for hour, lines in enumerate(base):
            self._write("base", lines, hour)
            start.run(places)
        self._start = Path(start.uri)

    def ingest(
        self, place: Place, table: str, logs: tuple[str, ...], *, overwrite: bool = False
    ) -> Ingest:
        paths = tuple(self.folder / "logs" / name for name in logs)
        return Ingest(place, table, paths, overwrite)

    def prepare(self, place: Place, table: str, story: Story) -> Ingest:
        """Return the ingest of a story, into a new table."""
        ingest = self.ingest(place, table, story.logs, overwrite=story.overwrite)
        if story.before is not None:
            self.places.put(self._start, ingest.uri)
        return ingest

    def steps(self, place: Place, story: Story) -> list[str]:
        """Return the steps of a story's ingest that is not disturbed."""
        key = place.name, story.name
        if key not in self._steps:
            table = f"undisturbed-{place.name}-{story.name}"
            ingest = self.prepare(place, table, story)
            self._steps[key] = count_steps(self.places, ingest, self.folder / f"steps-{table}")
            assert self.read(ingest) == story.after, key
        return self._steps[key]

    def choose(self, number: int) -> Schedule:
        """Return a random schedule: each kind of step is as likely as another."""
        place = self.rng.choice(list(self.places.remote.values()) or [self.places.disk])
        story = self.rng.choice(self.stories)
        kinds: dict[str, list[tuple[int, str]]] = {}
        for step, path in enumerate(self.steps(place, story), start=1):
            kinds.setdefault(find_kind(path), []).append((step, path))
        step, path = self.rng.choice(kinds[self.rng.choice(sorted(kinds))])
        ways = sorted(set(WAYS) - {CUT})
        if place.name == DISK:
            ways = [way for way in ways if way.endswith("command")]
        way = CUT if self.rng.random() < CUT_SHARE else self.rng.choice(ways)
        return Schedule(number, place, story, step, path, way)

    def copy(self, ingest: Ingest) -> Path:
        """Return a copy of a table on this machine."""
        copy = self.folder / "copies" / f"{ingest.table}-{self.rng.getrandbits(32):x}"
        self.places.fetch(ingest.uri, copy)
        return copy

    def read(self, ingest: Ingest) -> Content | None:
        """Return the content of a table, if it has any."""
        try:
            return read_content(self.copy(ingest))
        except TableError:
            return None

    def check(self, schedule: Schedule) -> None:
        """Kill an ingest, and check the table, the next ingest, and what is left after it."""
        story, table = schedule.story, f"table-{schedule.number}"
        steps = self.folder / f"steps-{table}"
        ingest = self.prepare(schedule.place, table, story)
        if schedule.way == CUT:
            said = cut_off(self.places, ingest, steps, schedule.step)
        else:
            said = kill(self.places, ingest, steps, schedule.step, schedule.way)
        assert (steps / "reached").exists(), said
        assert self.read(ingest) in (story.before, story.after), said
        following = ingest._replace(logs=(*ingest.logs, self.folder / "logs/extra"))
        following.run(self.places)
        copy = self.copy(following)
        assert read_content(copy) == story.last, said
        assert find_left(copy) == []
        self.places.remove(ingest.uri)

    def _write(self, name: str, lines: list[Line], number: int = 0) -> None:
        write_log(self.folder / "logs" / name / f"{number}.log", lines)


def find_kind(step: str) -> str:
    return next((kind for kind, pattern in _KINDS.items() if re.search(pattern, step)), "other")


@pytest.mark.parametrize("kind", ["disk", "clusters"])
def test_killed_ingest_leaves_the_table_before_or_after_it(
    kind: str, request: pytest.FixtureRequest, seed: int, tmp_path: Path
) -> None:
    bench = Bench(request.getfixturevalue(kind), tmp_path, random.Random(seed))
    failures: list[str] = []
    tried = Counter[str]()
    for number in range(SCHEDULES):
        schedule = bench.choose(number)
        sys.stdout.write(f"{schedule}\n")
        tried.update((schedule.place.name, schedule.way, find_kind(schedule.path)))
        with collecting(failures, schedule):
            bench.check(schedule)
    sys.stdout.write(f"{dict(tried)}\n")
    assert not failures, "\n".join(failures)


def test_lost_answer_to_a_commit_is_not_taken_for_another_ingest(
    clusters: Places, seed: int, tmp_path: Path
) -> None:
    """The client repeats its request, and S3 answers that the file exists."""
    if "s3" not in clusters.remote:
        pytest.skip(f"{PROGRAM} is not installed")
    bench = Bench(clusters, tmp_path, random.Random(seed))
    story = bench.stories[1]
    ingest = bench.prepare(clusters.remote["s3"], "lost", story)
    lost.append("commits/00000006.json")
    ingest.run(clusters)
    assert not lost
    assert bench.read(ingest) == story.after
