"""The clients of every daemon: they ask over HTTP and the stream, and list over Kafka."""

import json
from collections.abc import Mapping
from contextlib import closing
from http.client import HTTPConnection
from typing import Any, Final

from authorizerd.acl.model import AclFilter, PatternType
from authorizerd.protocol.decisions.stream import ALLOWED, DENIED, NOT_READY
from authorizerd.protocol.kafka.error_codes import ApiError, ErrorCode
from tests.fleet.client import Connected, RefusedError, WrongAnswerError
from tests.fleet.journal import Listing
from tests.fleet.universe import DAEMON, is_hot
from tests.support.kafka_connection import KafkaConnection
from tests.support.requests import evaluation_of, stream_question
from tests.support.stream_connection import StreamConnection

BATCH: Final = "/access/v1/evaluations"
EVALUATION: Final = "/access/v1/evaluation"
UNSERVED: Final = frozenset(
    (
        ErrorCode.BROKER_NOT_AVAILABLE,
        ErrorCode.THROTTLING_QUOTA_EXCEEDED,
        ErrorCode.AUTHORIZER_NOT_READY,
    )
)
"""Errors of what was not done, and never will be."""
_WRONG_TOKENS: Final = (
    "Bearer soak.guessed", "Bearer nobody.guessed", "Bearer x", "Basic c29hazp4", "",
)  # fmt: skip
_OK: Final = 200
_FRAMES_MAX: Final = 6
"""How many a client sends before it reads the first answer."""


class HttpClient(Connected[HTTPConnection]):
    """A client of the decision port."""

    def connect(self) -> HTTPConnection:
        return self.site.http()

    def request(
        self, method: str, path: str, body: object = None, headers: Mapping[str, str] | None = None
    ) -> tuple[int, bytes]:
        """Return the status and the body of the answer. A body is bytes, or is sent as JSON."""
        data = body if body is None or isinstance(body, bytes) else json.dumps(body).encode()
        sent = self.site.http_headers | dict(headers or {})
        self.connection.request(method, path, data, sent)
        response = self.connection.getresponse()
        return response.status, response.read()

    def send(self, method: str, path: str, body: object = None) -> bytes:
        """Return the body of the answer, which must have status 200."""
        status, answer = self.request(method, path, body)
        if status != _OK:
            text = answer.decode(errors="replace").strip()
            if (reason := self.site.allows(status, text)) is not None:
                raise RefusedError(reason)
            raise WrongAnswerError(f"{path}: status {status}: {text[:300]}")
        return answer

    def post(self, path: str, body: object) -> Any:  # noqa: ANN401 - whatever JSON holds
        return json.loads(self.send("POST", path, body))


class Evaluations(HttpClient):
    """AuthZEN's single questions; one in five asks for an explanation as well."""

    name, pause_seconds = "evaluation", 0.03

    def exchange(self) -> None:
        question = self.site.draw_question(self.random)
        more = {"explain": True} if self.random.random() < 0.05 else {}
        begun = self.site.judge.begin()
        answer = self.post(EVALUATION, evaluation_of(question, **more))
        context = answer["context"]
        self.judge(begun, context["offset"], [question], [answer["decision"]])
        if more and context["explanation"]["decision"] is not answer["decision"]:
            raise WrongAnswerError(f"{question}: the explanation contradicts the decision")


class Explanations(HttpClient):
    """Explanations of single questions."""

    name, pause_seconds = "explain", 0.5

    def exchange(self) -> None:
        question = self.site.draw_question(self.random)
        begun = self.site.judge.begin()
        answer = self.post("/v1/explain", evaluation_of(question))
        self.judge(begun, answer["offset"], [question], [answer["decision"]])


class Batches(HttpClient):
    """AuthZEN's batches: one offset for all items."""

    name, pause_seconds = "batch", 0.15

    def exchange(self) -> None:
        size = self.random.randint(2, 20)
        questions = [self.site.draw_question(self.random) for _ in range(size)]
        begun = self.site.judge.begin()
        answer = self.post(BATCH, {"evaluations": [evaluation_of(each) for each in questions]})
        items = answer["evaluations"]
        offsets = {each["context"]["offset"] for each in items}
        if len(offsets) != 1:
            raise WrongAnswerError(f"a batch was decided at the offsets {sorted(offsets)}")
        self.judge(begun, offsets.pop(), questions, [each["decision"] for each in items])


class StreamQuestions(Connected[StreamConnection]):
    """Frames of the decision stream; some are sent before earlier ones are answered."""

    name, pause_seconds = "stream", 0.05

    def connect(self) -> StreamConnection:
        return self.site.stream()

    def begin(self) -> tuple[float, int]:
        """Return when the frames are sent, and the lowest offset that they ask for; -1: any."""
        return self.site.judge.begin(), -1

    def exchange(self) -> None:
        begun, min_offset = self.begin()
        frames = [
            [self.site.draw_question(self.random) for _ in range(self.random.randint(1, 20))]
            for _ in range(self.random.choice((1, 1, _FRAMES_MAX)))
        ]
        for number, questions in enumerate(frames):
            asked = map(stream_question, questions)
            self.connection.send(*asked, number=number, min_offset=min_offset)
        for number, questions in enumerate(frames):
            answer = self.connection.answer()
            if answer.correlation_id != number:
                raise WrongAnswerError(f"frame {number} is answered by {answer}")
            is_refused = answer.error_code or NOT_READY in answer.decisions
            if self.site.may_refuse and is_refused:
                raise RefusedError(f"stream: error {answer.error_code}")
            if answer.error_code or {*answer.decisions} - {ALLOWED, DENIED}:
                raise WrongAnswerError(f"error {answer.error_code}, {answer.decisions!r}")
            decisions = [each == ALLOWED for each in answer.decisions]
            self.judge(begun, answer.offset, questions, decisions)


class Descriptions(Connected[KafkaConnection]):
    """Kafka's DescribeAcls: of one topic, or as often as ``whole_share`` of everything."""

    name, pause_seconds, has_worker = "describe", 0.3, False
    whole_share = 0.1
    listener = "PLAINTEXT"

    def connect(self) -> KafkaConnection:
        return self.site.kafka(self.listener)

    def exchange(self) -> None:
        topic, wanted = None, AclFilter()
        if self.random.random() >= self.whole_share:
            topic = self.random.choice(DAEMON.topics)
            wanted = AclFilter(resource_name=topic, pattern_type=PatternType.LITERAL)
        begun = self.site.judge.begin()
        found = self.connection.describe(wanted=wanted)
        if isinstance(found, ApiError):
            if self.site.may_refuse and found.code in UNSERVED:
                raise RefusedError(f"listing: {found.name}")
            raise WrongAnswerError(f"DescribeAcls: {found}")
        if self.site.ballast is not None and topic is None:
            fixed = sum(each.resource_name.startswith("ballast-") for each in found)
            if fixed != self.site.ballast:
                raise WrongAnswerError(f"expected {self.site.ballast} fixed ACLs, found {fixed}")
        if self.site.ballast is not None:
            found = [each for each in found if is_hot(each)]
        self.site.judge.take(Listing(acls=frozenset(found), sent=begun, topic=topic))


class WrongTokens(HttpClient):
    """Questions with a wrong token, such as one with another last character."""

    name, pause_seconds = "wrong token", 0.5

    def exchange(self) -> None:
        token = self.site.token
        assert token is not None
        nearly = f"Bearer {token[:-1]}{'B' if token[-1] == 'A' else 'A'}"
        wrong = self.random.choice((nearly, *_WRONG_TOKENS))
        body = evaluation_of(self.site.draw_question(self.random))
        status, answer = self.request("POST", EVALUATION, body, {"Authorization": wrong})
        if status != 401 or not answer.startswith(b"expected a valid token"):
            raise WrongAnswerError(f"with {wrong!r}, HTTP has answered {status} {answer!r}")
        self.close()
        with closing(self.site.stream(wrong.rpartition(" ")[2])) as connection:
            if connection.greeting.error_code != ErrorCode.SASL_AUTHENTICATION_FAILED:
                raise WrongAnswerError(f"the stream has accepted {wrong!r}")
