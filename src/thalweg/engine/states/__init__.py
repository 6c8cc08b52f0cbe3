"""Kept states: caches over the windows, of which every key is live or absent.

- :mod:`~thalweg.engine.states.kept_states`: states as stores of entries.
- :mod:`~thalweg.engine.states.status`: how much of a state is there, and how that may change.
- :mod:`~thalweg.engine.states.completion`: gives states what they lack.
- :mod:`~thalweg.engine.states.memory_limit`: which keys of states make room if memory is limited.
"""
