"""Base windows: the facts that all else can be made from again.

- :mod:`~thalweg.engine.windows.base_windows`: the tuples of each stream.
- :mod:`~thalweg.engine.windows.access_paths`: the paths by which probes find them.
- :mod:`~thalweg.engine.windows.sampling`: samples of windows, for the planner.
"""
