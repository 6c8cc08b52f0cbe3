"""Running a plan over the tuples of one bucket. What follows is the map of this room; each sub-room has one of its own.

What an owner of a bucket (a replay, a task of Spark) talks to:

- :mod:`~thalweg.engine.bucket`: what any bucket does: takes Arrow rows, emits Arrow results.
- :mod:`~thalweg.engine.join_bucket`: a bucket of a join.
- :mod:`~thalweg.engine.former_work`: what was done for it before its readers changed.
- :mod:`~thalweg.engine.difference_bucket`: a bucket of ``EXCEPT``, around a :mod:`~thalweg.engine.difference`.

The sub-rooms, in the order a tuple travels:

- :mod:`~thalweg.engine.rows`: a tuple comes in: from Arrow rows to words that kernels compare.
- :mod:`~thalweg.engine.join`: the join of one bucket, put together from what follows.
- :mod:`~thalweg.engine.programs`: a plan becomes numbers: its programs as tables.
- :mod:`~thalweg.engine.machine`: what runs programs.
- :mod:`~thalweg.engine.windows`: base windows, the facts.
- :mod:`~thalweg.engine.states`: kept states, the caches: statuses, completion, a memory limit.
- :mod:`~thalweg.engine.feedback`: what nobody needs is not produced.
- :mod:`~thalweg.engine.kernels`: what the machine and the stores run, compiled.
- :mod:`~thalweg.engine.storage`: where all their numbers lie.
- :mod:`~thalweg.engine.migration`: how a join gets from one plan to the next.
- :mod:`~thalweg.engine.outputs`: a result goes out, to the readers that it belongs to.
- :mod:`~thalweg.engine.image`: a bucket as an image, which another process can take over.

What they have in common:

- :mod:`~thalweg.engine.observations`: what others learn of a join: what it holds and has done.
- :mod:`~thalweg.engine.chains`: which lineages windows hold, and what other slices would save.
- :mod:`~thalweg.engine.time_bounds`: the two ends of time.
- :mod:`~thalweg.engine.compilation`: compiles the kernels, or loads them from disk.

A sub-room imports only those before it in this order: storage, rows, programs, machine, windows, states, feedback,
join, migration, outputs, image. The buckets import them all.
"""
