"""Running a plan over the tuples of one bucket. What follows is the map of this room, in the order a tuple travels.

What an owner of a bucket (a replay, a task of Spark) talks to:

- :mod:`~thalweg.engine.bucket`: what any bucket does: takes Arrow rows, emits Arrow results.
- :mod:`~thalweg.engine.join_bucket`: a bucket of a join.
- :mod:`~thalweg.engine.difference_bucket`: a bucket of ``EXCEPT``.

A tuple comes in:

- :mod:`~thalweg.engine.batch`: new rows on their way into a bucket.
- :mod:`~thalweg.engine.expressions`: SQL expressions over Arrow tables, by DuckDB.
- :mod:`~thalweg.engine.encoding`: from Arrow rows to the 64-bit words that kernels compare.
- :mod:`~thalweg.engine.interner`: exact codes for keys that do not fit into a word.
- :mod:`~thalweg.engine.layout`: which word of a tuple holds what.
- :mod:`~thalweg.engine.payload`: the columns that nothing compares, found by row number.
- :mod:`~thalweg.engine.time_bounds`: the two ends of time.

A plan becomes numbers:

- :mod:`~thalweg.engine.programming`: from a plan to what runs, under the policies of one engine.
- :mod:`~thalweg.engine.assembly`: the programs of a plan as the tables that the machine runs.
- :mod:`~thalweg.engine.program_assembly`: its instructions as rows.
- :mod:`~thalweg.engine.feedback_assembly`: its demands, gates and gaps.
- :mod:`~thalweg.engine.theta_tables`: its comparisons.
- :mod:`~thalweg.engine.assembly_lists`: what these have in common.

The tuple is joined:

- :mod:`~thalweg.engine.join`: the join of one bucket, composed of the parts that follow.
- :mod:`~thalweg.engine.workspace`: the arrays that these parts share.
- :mod:`~thalweg.engine.memory`: one array in regions, for windows, states and feedback.
- :mod:`~thalweg.engine.arrays`: flat arrays that grow.
- :mod:`~thalweg.engine.windows`: the base windows, and the paths by which probes find their tuples.
- :mod:`~thalweg.engine.states`: the kept states, as stores of entries.
- :mod:`~thalweg.engine.state_status`: how much of a state is there, and how that may change.
- :mod:`~thalweg.engine.machine`: takes tuples, runs programs, hands out what they find.
- :mod:`~thalweg.engine.frames`: where the machine is between two calls.
- :mod:`~thalweg.engine.kernels`: what it runs, compiled.
- :mod:`~thalweg.engine.completion`: gives states what they lack.
- :mod:`~thalweg.engine.feedback`: the memory of demands and gaps, with ``production="jit"`` and ``"auto"``.
- :mod:`~thalweg.engine.gates`: which joins give feedback, with ``production="auto"``: somebody else chooses.
- :mod:`~thalweg.engine.gate_choice`: an engine as this somebody sees it.
- :mod:`~thalweg.engine.savings`: what feedback has saved.
- :mod:`~thalweg.engine.accounts`: what probes are paid from under a budget, and what was refused.
- :mod:`~thalweg.engine.memory_limit`: which keys of states make room if memory is limited.
- :mod:`~thalweg.engine.eddy`: decides after every probe where a tuple goes next.
- :mod:`~thalweg.engine.difference`: set difference, in place of a join.

The plan changes:

- :mod:`~thalweg.engine.succession`: which states the next plan takes over.
- :mod:`~thalweg.engine.migration`: the policies by which a join gets from one plan to the next.
- :mod:`~thalweg.engine.parallel_track`: the one that runs both plans for a while.
- :mod:`~thalweg.engine.stream_partition`: a join for each part of the streams, with ``sharing="push_down"``.

A result goes out:

- :mod:`~thalweg.engine.results`: from row numbers to result rows.
- :mod:`~thalweg.engine.readers`: which readers of the join a result belongs to.
- :mod:`~thalweg.engine.asked_again`: selections that masks do not tell apart.
- :mod:`~thalweg.engine.outputs`: what is emitted: results as they enter, as they leave, or aggregates of them.
- :mod:`~thalweg.engine.departures`: results that wait to leave.
- :mod:`~thalweg.engine.aggregate`: groups, and when their values change.
- :mod:`~thalweg.engine.accumulators`: what all aggregate functions have in common, and COUNT.
- :mod:`~thalweg.engine.sums`: SUM and AVG.
- :mod:`~thalweg.engine.extrema`: MIN and MAX.

What others learn of a bucket, and how it lives on:

- :mod:`~thalweg.engine.observations`: what a join holds and has done.
- :mod:`~thalweg.engine.step_work`: the same, instruction by instruction.
- :mod:`~thalweg.engine.sampling`: samples of windows, for the planner.
- :mod:`~thalweg.engine.image`: a bucket as an image, which another process can take over.
- :mod:`~thalweg.engine.image_files`: the files of an image.
- :mod:`~thalweg.engine.snapshot`: objects as JSON and flat bytes, and back.
- :mod:`~thalweg.engine.compilation`: compiles the kernels, or loads them from disk.
"""
