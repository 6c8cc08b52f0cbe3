"""The policies by which a join gets from one plan to the next, behind one interface.

- :mod:`~thalweg.engine.migration.joiner`: the interface, and which policy has which engine.
- :mod:`~thalweg.engine.migration.parallel_track`: both plans run for a while.
- :mod:`~thalweg.engine.migration.tracks`: what these plans consist of.
- :mod:`~thalweg.engine.migration.printed_parallel_track`: the same as it is usually described, for comparison.
- :mod:`~thalweg.engine.migration.stream_partition`: a join for each part of the streams, with ``sharing="push_down"``.
"""
