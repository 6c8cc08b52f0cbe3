"""Thalweg on Spark Structured Streaming: one stateful operator between the streams and the sink.

What follows is the map of this room, in the order a tuple travels.

What a user talks to:

- :mod:`~thalweg.spark.app`: ``thalweg.App``.
- :mod:`~thalweg.spark.session`: a Spark on this machine alone.
- :mod:`~thalweg.spark.java`: the Java that it runs on.
- :mod:`~thalweg.spark.operator_session`: the session that queries run in, with the settings that they need.
- :mod:`~thalweg.spark.data_sources`: our Python data sources, made known to a session.

A query is put together:

- :mod:`~thalweg.spark.streams`: a stream that the app has been told of.
- :mod:`~thalweg.spark.columns`: the columns of a DataFrame, as a query may name them.
- :mod:`~thalweg.spark.analysis`: the types of expressions, by Spark's own analyser.
- :mod:`~thalweg.spark.division`: which part of a query Spark SQL computes, and which part the operator.
- :mod:`~thalweg.spark.below`: the columns that Spark SQL computes for it of each stream.
- :mod:`~thalweg.spark.carriage`: which columns travel to the buckets, and stay in their logs.
- :mod:`~thalweg.spark.query_builder`: a query as one stateful operator.
- :mod:`~thalweg.spark.sql`: bound expressions as Spark SQL.
- :mod:`~thalweg.spark.answer`: its answer, a DataFrame that looks at a checkpoint before it starts.
- :mod:`~thalweg.spark.checkpoint`: what a checkpoint says of the query that wrote it.
- :mod:`~thalweg.spark.description`: what a query writes there about itself.
- :mod:`~thalweg.spark.compatibility`: what may change between two starts from one checkpoint.

Queries that share runs:

- :mod:`~thalweg.spark.shared_app`: an app's queries, registered, started and let go.
- :mod:`~thalweg.spark.started`: their runs, as queries of Spark.
- :mod:`~thalweg.spark.registry`: the queries of a directory, without Spark.
- :mod:`~thalweg.spark.queries_file`: the file that says which there are, and who may run them.
- :mod:`~thalweg.spark.run`: a run as that file knows it.
- :mod:`~thalweg.spark.fitting`: whether a query fits a run.
- :mod:`~thalweg.spark.shared_run`: a run as its buckets know it.
- :mod:`~thalweg.spark.overview`: what is known of the queries without Spark.

Tuples are sent to buckets:

- :mod:`~thalweg.spark.bucket_input`: which columns, by which hashes.
- :mod:`~thalweg.spark.packing`: rows to blobs and back.
- :mod:`~thalweg.spark.buckets`: the numbers by which Spark knows buckets.
- :mod:`~thalweg.spark.relations`: static relations, which all workers are given.

Commands are sent to buckets:

- :mod:`~thalweg.spark.commands`: what a command may say.
- :mod:`~thalweg.spark.command_files`: the directory in which commands lie.
- :mod:`~thalweg.spark.receivers`: the queries that there are to send them to.
- :mod:`~thalweg.spark.command_source`: commands as a stream, whose offsets hold them.
- :mod:`~thalweg.spark.control`: that stream as one more input of a query.

Triggers keep a target:

- :mod:`~thalweg.spark.prices`: how many probes a batch has time for.
- :mod:`~thalweg.spark.pricing`: prices from what triggers took.
- :mod:`~thalweg.spark.trigger_listener`: listens to Spark for that.
- :mod:`~thalweg.spark.price_file`: how the stream of commands learns of prices.
- :mod:`~thalweg.spark.bounds`: whether sources limit what a trigger may bring.
- :mod:`~thalweg.spark.temporary`: directories that go with the process.

A bucket runs its batch:

- :mod:`~thalweg.spark.operator`: the stateful operator, as Spark loads it.
- :mod:`~thalweg.spark.bucket_task`: what a task does with a bucket.
- :mod:`~thalweg.spark.bucket_spec`: what a bucket runs, and what a batch brings for it.
- :mod:`~thalweg.spark.attendance`: which engine takes a batch.
- :mod:`~thalweg.spark.resident`: a bucket that lives on: its engine, its log, its record.
- :mod:`~thalweg.spark.membership`: which queries it serves.
- :mod:`~thalweg.spark.reception`: the rows of a batch that came in time, and those to be kept out.
- :mod:`~thalweg.spark.record`: what is committed beside the log.
- :mod:`~thalweg.spark.survivors`: which rows of the log are held after all changes of queries.
- :mod:`~thalweg.spark.refill`: an engine from the log.
- :mod:`~thalweg.spark.watermarks`: how far time has come in it.
- :mod:`~thalweg.spark.intake`: how many rows it was given, and kept out.
- :mod:`~thalweg.spark.side_output`: the rows that it kept out, in files.
- :mod:`~thalweg.spark.chunks`: its log.
- :mod:`~thalweg.spark.log_change`: the log for a query that has changed.
- :mod:`~thalweg.spark.image_directory`: where engines lie between batches, for whichever worker comes next.
- :mod:`~thalweg.spark.workers`: Python workers, started early and spared work.
- :mod:`~thalweg.spark.daemon`: what they are forked from, with everything loaded.

Results go out:

- :mod:`~thalweg.spark.bucket_output`: results out of their blobs, and what Spark observes.
- :mod:`~thalweg.spark.outbox`: results of many readers, each in a directory of its own.
- :mod:`~thalweg.spark.spending_report`: what a bucket says of its budget.
- :mod:`~thalweg.spark.freshness`: how fresh results are, and which freshness a target can keep.
- :mod:`~thalweg.spark.metrics`: the reports of buckets, added up.
"""
