"""How a bucket lives on: as an image, which another process can take over.

- :mod:`~thalweg.engine.image.image`: writing and reading one.
- :mod:`~thalweg.engine.image.snapshot`: objects as JSON and flat bytes, and back.
"""
