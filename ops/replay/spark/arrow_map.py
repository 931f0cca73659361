"""``DataFrame.mapInArrow`` without pandas, which it asks for and never uses.

Spark makes it of the same call as its functions over pandas, whose check comes first. Here is what
stands behind that check; with pandas installed, Spark's own road is taken.
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
    """Return the rows that ``function`` makes of the frame's Arrow batches, partition by partition.

    Args:
        schema: of what it makes.
        barrier: all partitions run at once, or none.
    """
    if _HAS_PANDAS:
        return frame.mapInArrow(function, schema, barrier)
    from pyspark.sql.pandas import functions

    make: Any = functions.vectorized_udf  # type: ignore[attr-defined]
    mapped = make(function, returnType=schema, functionType=PythonEvalType.SQL_MAP_ARROW_ITER_UDF)
    column = mapped(*(frame[name] for name in frame.columns))
    return DataFrame(frame._jdf.mapInArrow(column._jc, barrier, None), frame.sparkSession)
