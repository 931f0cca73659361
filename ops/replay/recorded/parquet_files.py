"""Read and write the Parquet files of a table, whose pages have checksums.

**Invariant:** a page that differs from its checksum is an error. Without this, a changed byte could
give other rows. Spark writes checksums as well; its sessions verify them (``spark.session``).
"""

from __future__ import annotations

from pathlib import Path
from typing import Final

import pyarrow as pa
from pyarrow import dataset, parquet

FORMAT: Final = dataset.ParquetFileFormat(
    default_fragment_scan_options=dataset.ParquetFragmentScanOptions(
        page_checksum_verification=True
    )
)
"""The format of files that are read as one dataset."""


def open_parquet(path: Path, *, pre_buffer: bool = False) -> parquet.ParquetFile:
    """Open a file for reading. With ``pre_buffer``, its columns are read ahead."""
    return parquet.ParquetFile(path, pre_buffer=pre_buffer, page_checksum_verification=True)


def create_parquet(path: Path, schema: pa.Schema) -> parquet.ParquetWriter:
    """Open a file for writing."""
    return parquet.ParquetWriter(
        path,
        schema,
        compression="snappy",
        use_dictionary=[field.name for field in schema if field.type == pa.string()],
        # Rules are long and numerous: with the default size, Parquet would abandon their
        # dictionary.
        dictionary_pagesize_limit=16 * 1024 * 1024,
        write_statistics=["at"] if "at" in schema.names else False,
        store_schema=False,
        write_page_checksum=True,
    )
