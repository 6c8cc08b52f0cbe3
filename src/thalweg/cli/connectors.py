"""What sources, static relations and sinks of ``thalweg run`` are: files, or anything that Spark reads and writes.

Files are read as ``thalweg replay`` reads them: text has no types, so they are inferred once, from the files that
are there when the run begins, and a later value that does not fit is an error, not a NULL.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import typer

from thalweg.cli.secrets import NEXT_OPTION, redacted
from thalweg.errors import InputError

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql import DataFrame, DataFrameReader, SparkSession
    from pyspark.sql.streaming.readwriter import DataStreamReader, DataStreamWriter
    from pyspark.sql.types import DataType, StructType

    Reader = DataStreamReader | DataFrameReader

SOURCE_FORMS = "trades=trades/ or trades=rate:rowsPerSecond=1000"
_SPARK = re.compile(r"(?P<format>[A-Za-z][\w.-]+):(?!//)(?P<options>.*)", re.DOTALL)
_GLOB_MARK = re.compile(r"[][*?{}\\]")
_FILE_FORMATS = ("parquet", "orc", "json", "csv", "text", "xml", "avro")  # Spark wants to be told their columns
_PATHLESS_SINKS = ("console", "noop")
_ENOUGH_BYTES = 64 << 20
"""Of text to infer types from: seconds of reading, and more than enough to see every column filled."""


@dataclass(frozen=True, slots=True)
class Connector:
    """A format of Spark's and its options."""

    format: str
    options: Mapping[str, str]


def parse_connector(text: str, option: str) -> Connector | None:
    """``FORMAT:key=value,key=value`` or ``FORMAT:path``; None if the text is a plain path.

    >>> parse_connector("kafka:kafka.bootstrap.servers=a:1,b:2,subscribe=trades", "--source").options
    {'kafka.bootstrap.servers': 'a:1,b:2', 'subscribe': 'trades'}
    >>> parse_connector("parquet:path=in/,schema=k BIGINT, ts TIMESTAMP", "--source").options["schema"]
    'k BIGINT, ts TIMESTAMP'
    >>> parse_connector("csv:out/", "--sink")
    Connector(format='csv', options={'path': 'out/'})
    >>> parse_connector("trades/*.csv", "--source") is None
    True
    """
    match = _SPARK.fullmatch(text)
    if match is None or Path(text).exists():
        return None
    given = match["options"].strip()
    if given and "=" not in given:
        return Connector(match["format"], {"path": given})
    options = {}
    for pair in NEXT_OPTION.split(given) if given else ():
        name, equals, value = (part.strip() for part in pair.partition("="))
        if not (name and equals):
            message = f"'{redacted(pair)}' is not of the form key=value (in '{redacted(text)}')."
            raise typer.BadParameter(message, param_hint=option)
        options[name] = value
    return Connector(match["format"], options)


# -- Sources ------------------------------------------------------------------------------


def open_source(spark: SparkSession, stream: str, text: str, time: str) -> tuple[DataFrame, str]:
    """The stream that a ``--source`` names, and its event time column as the source spells it."""
    connector = Connector("rate", {}) if text == "rate" else parse_connector(text, "--source")
    reader = spark.readStream
    frame = _open_files(spark, reader, text, time) if connector is None else _open_connector(spark, reader, connector)
    return frame, _time_column(frame.columns, stream, text, time)


def open_relation(spark: SparkSession, text: str) -> DataFrame:
    """The static relation that a ``--static`` names."""
    connector = parse_connector(text, "--static")
    reader = spark.read
    return _open_files(spark, reader, text, None) if connector is None else _open_connector(spark, reader, connector)


def _time_column(columns: list[str], stream: str, text: str, time: str) -> str:
    # Spark's own sources call theirs timestamp.
    for wanted in (time, "timestamp") if time == "ts" else (time,):
        for column in columns:
            if column.lower() == wanted.lower():
                return column
    raise InputError(
        f"{redacted(text)} has no column '{time}' for the event time of stream '{stream}'. Its columns are "
        f"{', '.join(columns)}. Name the one with the time: --time {stream}=COLUMN."
    )


def _open_connector(spark: SparkSession, reader: Reader, connector: Connector) -> DataFrame:
    options = dict(connector.options)
    schema = options.pop("schema", None)
    reader = reader.format(connector.format).options(**options)
    if schema is not None:
        return reader.schema(schema).load()
    if connector.format in _FILE_FORMATS:
        return reader.schema(spark.read.format(connector.format).options(**options).load().schema).load()
    return reader.load()


def _open_files(spark: SparkSession, reader: Reader, path: str, time: str | None) -> DataFrame:
    from thalweg.files import expand, format_of

    place = Path(path).expanduser().absolute()
    if place.is_dir() and not any(place.iterdir()):
        raise InputError(
            f"directory {path} is empty, so there is nothing to tell the columns of its files from. Put a first file "
            f"there, or write the columns: parquet:path={path},schema=k BIGINT, ts TIMESTAMP."
        )
    files = expand(path)
    forms = {form.name: form for form in map(format_of, files)}
    if len(forms) > 1:
        raise InputError(
            f"{path} holds files of several formats ({', '.join(sorted(forms))}). Choose one, as in '{path}/*.csv'."
        )
    (form,) = forms.values()
    if place.is_dir():
        reader = reader.option("pathGlobFilter", f"*{{{','.join(form.endings)}}}")
    elif place.is_file():  # Spark watches directories
        reader = reader.option("pathGlobFilter", _GLOB_MARK.sub(r"\\\g<0>", place.name))
        place = place.parent
    if form.name == "parquet":
        return reader.schema(spark.read.parquet(str(files[0].absolute())).schema).parquet(str(place))
    columns = _inferred(files, time)
    reader = reader.schema(_readable(columns)).option("mode", "FAILFAST")
    if form.name == "CSV":
        # A quote inside quotes is doubled, and the header, not the position, says which column is which.
        options = {"header": "true", "enforceSchema": "false", "multiLine": "true", "escape": '"'}
        frame = reader.options(**options).csv(str(place))
    else:
        frame = reader.json(str(place))
    return frame.select(*(frame[f"`{name}`"].cast(kind).alias(name) for name, kind in columns.items()))


def _inferred(files: list[Path], time: str | None) -> dict[str, DataType]:
    """The columns of text files, with the types that ``replay`` gives them."""
    import pyarrow as pa

    from thalweg.files import read_table

    schemas: list[pa.Schema] = []
    seen = 0
    for file in files:
        schemas.append(read_table(file, time=time).schema)
        seen += file.stat().st_size
        if seen >= _ENOUGH_BYTES:
            break
    try:
        unified = pa.unify_schemas(schemas, promote_options="permissive")
    except pa.ArrowException as error:
        names = ", ".join(map(str, files[: len(schemas)]))
        raise InputError(f"the files {names} disagree on the type of a column: {error}") from error
    return {field.name: _spark_type(field.type) for field in unified}


def _spark_type(kind: pa.DataType) -> DataType:
    import pyarrow as pa
    from pyspark.sql.pandas.types import from_arrow_type
    from pyspark.sql.types import StringType

    if pa.types.is_null(kind) or pa.types.is_time(kind):  # nothing there yet; a time of day, which Spark has as text
        return StringType()
    return from_arrow_type(kind)


def _readable(columns: Mapping[str, DataType]) -> StructType:
    """The types to parse text as: a TIMESTAMP, unlike one without a zone, may be written with a zone."""
    from pyspark.sql import types

    schema = types.StructType()
    for name, kind in columns.items():
        schema.add(name, types.TimestampType() if isinstance(kind, types.TimestampNTZType) else kind)
    return schema


# -- Sinks --------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Sink:
    """Where results go; ``directory`` is the place of files on this machine, if it is one, ``name`` has no secrets."""

    connector: Connector
    directory: Path | None
    name: str

    @property
    def is_console(self) -> bool:
        """Whether Spark prints the results."""
        return self.connector.format == "console"

    def writer(self, frame: DataFrame) -> DataStreamWriter:
        return frame.writeStream.format(self.connector.format).options(**self.connector.options)


def parse_sink(text: str) -> Sink:
    """The sink that ``--sink`` names: a directory for parquet files, ``console``, ``noop``, or ``FORMAT:...``.

    >>> parse_sink("csv:out").directory.name, parse_sink("noop").directory
    ('out', None)
    """
    if text in _PATHLESS_SINKS:
        return Sink(Connector(text, {}), None, text)
    connector = parse_connector(text, "--sink") or Connector("parquet", {"path": text})
    path = connector.options.get("path")
    if path is None or "://" in path:
        return Sink(connector, None, redacted(text))
    place = Path(path).expanduser().absolute()
    if place.exists() and not place.is_dir():
        raise InputError(f"cannot write to {path}: it is a file, and the results are a directory of files")
    return Sink(Connector(connector.format, {**connector.options, "path": str(place)}), place, path)
