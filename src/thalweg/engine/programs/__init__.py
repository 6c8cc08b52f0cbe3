"""A plan becomes numbers: its programs as the tables that the machine runs.

- :mod:`~thalweg.engine.programs.assembly`: all of these tables.
- :mod:`~thalweg.engine.programs.program_assembly`: the instructions as rows.
- :mod:`~thalweg.engine.programs.feedback_assembly`: the demands, gates and gaps.
- :mod:`~thalweg.engine.programs.theta_tables`: the comparisons.
- :mod:`~thalweg.engine.programs.assembly_lists`: what these have in common.
"""
