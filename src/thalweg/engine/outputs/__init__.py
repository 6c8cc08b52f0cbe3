"""A result goes out: from row numbers to what each reader gets.

- :mod:`~thalweg.engine.outputs.distribution`: gives readers their results, put together from what follows.
- :mod:`~thalweg.engine.outputs.results`: from row numbers to result rows.
- :mod:`~thalweg.engine.outputs.readers`: which readers of the join a result belongs to.
- :mod:`~thalweg.engine.outputs.ages`: the times of the tuples in results, where somebody asks how fresh they are.
- :mod:`~thalweg.engine.outputs.estimates`: under a budget, how much of its answer each reader has got.
- :mod:`~thalweg.engine.outputs.asked_again`: selections that masks do not tell apart.
- :mod:`~thalweg.engine.outputs.outputs`: what is emitted: results as they enter, as they leave, or aggregates of them.
- :mod:`~thalweg.engine.outputs.departures`: results that wait to leave.
- :mod:`~thalweg.engine.outputs.aggregate`: groups, and when their values change.
- :mod:`~thalweg.engine.outputs.accumulators`: what all aggregate functions have in common, and COUNT.
- :mod:`~thalweg.engine.outputs.sums`: SUM and AVG.
- :mod:`~thalweg.engine.outputs.extrema`: MIN and MAX.
"""
