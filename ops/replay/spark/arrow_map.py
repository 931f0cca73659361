"""``DataFrame.mapInArrow`` without pandas, which Spark requires here but does not use.

Spark implements it through its pandas functions, which first check that pandas is installed. This
module calls the code behind that check. If pandas is installed, it calls Spark's own method.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from importlib.util import find_spec
from typing import TYPE_CHECKING, Any, Final

from pyspark.sql import DataFrame
from pyspark.sql.types import StructType
from pyspark.util import PythonEvalType

if TYPE_CHECKING:
    from pyarrow import RecordBatch

    Batches = Iterator[RecordBatch]

_HAS_PANDAS: Final = find_spec("pandas") is not None


def map_in_arrow(
    frame: DataFrame,
    function: Callable[[Batches], Batches],
    schema: StructType | str,
    *,
    barrier: bool = False,
) -> DataFrame:
    """Return the rows that ``function`` makes from the Arrow batches of each partition.

    Args:
        schema: the columns of the result.
        barrier: run all partitions at the same time, or none.
    """
    if _HAS_PANDAS:
        return frame.mapInArrow(function, schema, barrier)
    from pyspark.sql.pandas import functions

    make: Any = functions.vectorized_udf  # type: ignore[attr-defined]
    mapped = make(function, returnType=schema, functionType=PythonEvalType.SQL_MAP_ARROW_ITER_UDF)
    column = mapped(*(frame[name] for name in frame.columns))
    return DataFrame(frame._jdf.mapInArrow(column._jc, barrier, None), frame.sparkSession)
