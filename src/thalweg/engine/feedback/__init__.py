"""What nobody needs is not produced, with ``production="jit"`` and ``"auto"``.

- :mod:`~thalweg.engine.feedback.memory`: what is remembered of demands and gaps.
- :mod:`~thalweg.engine.feedback.gates`: which joins give feedback, and what somebody may ask who chooses that.
- :mod:`~thalweg.engine.feedback.savings`: what feedback has saved.
"""
