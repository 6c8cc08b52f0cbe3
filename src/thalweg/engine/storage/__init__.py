"""Where numbers lie: in one memory, or in arrays that grow.

- :mod:`~thalweg.engine.storage.memory`: one array in regions, for windows, states and feedback.
- :mod:`~thalweg.engine.storage.arrays`: flat arrays that grow.
- :mod:`~thalweg.engine.storage.image_files`: the names of files that an array may be mapped from.
"""
