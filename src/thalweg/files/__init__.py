"""Tables from files and back: parquet, CSV and JSON lines, told apart by their ending.

A source is one file, a directory of files, or a glob; its files are read in the order of
their names and must agree on their columns. What a file says is checked against its
ending before it is parsed, so that a mistake is named for what it is.

Text has no types, so they are found from the values: whole numbers are int64, other
numbers double, ISO 8601 texts timestamps. Times that carry a zone are converted to UTC;
all times of text files are microseconds without a zone, so that they compare across files.
"""

from thalweg.files.formats import format_of
from thalweg.files.sink import atomically, check_place, write_table
from thalweg.files.source import expand, read_table

__all__ = ["atomically", "check_place", "expand", "format_of", "read_table", "write_table"]
