"""The outbox: results of many readers leave one running query, and each reader finds its own, exactly once.

One query of Spark serves many registered queries. It emits rows ``(reader, body)``, each body an Arrow stream with rows
of one reader. The outbox takes these and keeps a directory of plain parquet files for each reader. What follows is the
map, in the order a row travels.

- :mod:`~thalweg.spark.outbox.layout`: where things lie, and what manifests say.
- :mod:`~thalweg.spark.outbox.files`: what is done with files.
- :mod:`~thalweg.spark.outbox.directory`: readers are opened; anybody may ask what was published.
- :mod:`~thalweg.spark.outbox.sink`: Spark's side of writing.
- :mod:`~thalweg.spark.outbox.staging`: a task writes files that nobody sees.
- :mod:`~thalweg.spark.outbox.publishing`: a commit publishes them. It says why that happens exactly once.
- :mod:`~thalweg.spark.outbox.reading`: a reader's rows as a DataFrame.
"""
