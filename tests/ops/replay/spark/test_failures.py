import pytest

pytest.importorskip("pyspark", reason="pyspark is not installed")

from py4j.protocol import Py4JJavaError, Py4JNetworkError
from pyspark.errors import AnalysisException, PythonException, StreamingQueryException

from authorizerd.replay.errors import JobError
from authorizerd.replay.spark.failures import ADD_S3, CHARACTERS_MAX, is_named, one_line

IN_A_WORKER = """Job aborted due to stage failure: Task 0 in stage 1.0 failed 4 times:
org.apache.spark.api.python.PythonException: Traceback (most recent call last):
  File "/spark/worker.py", line 1, in main
    process()
  File "/zip/authorizerd/acl/audit/recorded/line.py", line 7, in parse
    return at[:20
msgspec.ValidationError: Expected `int`, got `str` - at `$.offset`

\tat org.apache.spark.api.python.BasePythonRunner.handlePythonException(PythonRunner.scala)
"""
AFTER_ANOTHER = (
    "Traceback (most recent call last):\nKeyError: 'a'\n\nDuring handling of the above exception,"
    " another exception occurred:\n\nTraceback (most recent call last):\n  File 'x'\nValueError\n"
)

NOT_IMPORTED = (
    "Traceback (most recent call last):\n  File 'x'\n"
    "ModuleNotFoundError: No module named 'msgspec'\n"
)
STREAM_FAILED = "[STREAM_FAILED] Query [id = 1, runId = 2] terminated with exception: "
OWN = (
    "a new Java object:\nTraceback (most recent call last):\n  File 'x'\n"
    "authorizerd.replay.errors.JobError: too many: 7\n"
)


class JavaError(Py4JJavaError):  # type: ignore[misc] # py4j has no annotations
    """py4j's error for a Java exception, whose causes have the later messages."""

    def __init__(self, *messages: str) -> None:
        name = "org.apache.spark.SparkException"
        causes = (f"{name}: {message}\n\tat Some.method(Some.java:1)\n" for message in messages)
        self._said = f"An error occurred while calling o1.load.\n: {'Caused by: '.join(causes)}"

    def __str__(self) -> str:
        return self._said


NO_PROGRAM = 'Cannot run program "/x/python": error=2, No such file'


@pytest.mark.parametrize(("error", "said"), [
    (JobError("the events were not accepted"), "the events were not accepted"),
    (FileNotFoundError("/x is not there"), "/x is not there"),
    (KeyError("topic"), "KeyError: 'topic'"),
    (ValueError("first\nsecond"), "ValueError: first"),
    (AnalysisException("[PATH_NOT_FOUND] /x\nmore"), "[PATH_NOT_FOUND] /x"),
    (PythonException(AFTER_ANOTHER), "ValueError"),
    *((JavaError(said), f"Spark has no connector for S3 (SparkException: {said}): {ADD_S3}")
      for said in ("Class org.apache.hadoop.fs.s3a.S3AFileSystem not found",
                   'No FileSystem for scheme "s3"')),
    (PythonException(f"{AFTER_ANOTHER}\n{NOT_IMPORTED}"),
     "the executors' Python cannot run this job: No module named 'msgspec': see --python and "
     "--archives"),
    (JavaError(IN_A_WORKER), "ValidationError: Expected `int`, got `str` - at `$.offset`"),
    (JavaError("Failed", "No.\nAt last", "All are down"), "SparkException: All are down"),
    (JavaError(NO_PROGRAM, "error=2, No such file"), f"SparkException: {NO_PROGRAM}"),
    (StreamingQueryException(f"{STREAM_FAILED}java.Timeout: late SQLSTATE: XXKST\n\tat x"),
     "java.Timeout: late"),
    (StreamingQueryException(f"{STREAM_FAILED}Error while obtaining {OWN} SQLSTATE: XXKST"),
     "too many: 7"),
    (Py4JNetworkError("no answer"), "the connection to Spark's JVM was lost: no answer"),
])  # fmt: skip
def test_fault_is_one_line_with_its_cause(error: Exception, said: str) -> None:
    assert one_line(error) == said


def test_long_fault_is_cut() -> None:
    assert len(one_line(JobError("x" * 5_000))) == CHARACTERS_MAX


def test_own_errors_are_recognised() -> None:
    assert is_named(JobError("x"))
    assert not is_named(KeyError("x"))
