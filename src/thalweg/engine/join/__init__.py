"""The join of one bucket, put together from the rooms above.

- :mod:`~thalweg.engine.join.engine`: the join itself: which part acts when.
- :mod:`~thalweg.engine.join.programming`: from a plan to what runs, under the policies of one engine.
- :mod:`~thalweg.engine.join.succession`: which states the next plan takes over.
- :mod:`~thalweg.engine.join.room`: makes room, within a memory limit.
- :mod:`~thalweg.engine.join.tally`: what it has done.
- :mod:`~thalweg.engine.join.gate_choice`: the engine as somebody sees it who chooses its gates.
"""
