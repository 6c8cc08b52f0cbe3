"""A tuple comes in: from Arrow rows to words that kernels compare.

- :mod:`~thalweg.engine.rows.batch`: new rows on their way into a bucket.
- :mod:`~thalweg.engine.rows.expressions`: SQL expressions over Arrow tables, by DuckDB.
- :mod:`~thalweg.engine.rows.encoding`: from Arrow rows to the 64-bit words that kernels compare.
- :mod:`~thalweg.engine.rows.interner`: exact codes for keys that do not fit into a word.
- :mod:`~thalweg.engine.rows.layout`: which word of a tuple holds what.
- :mod:`~thalweg.engine.rows.payload`: the columns that nothing compares, found by row number.
- :mod:`~thalweg.engine.rows.row_store`: the rows of a bucket, put together from what precedes.
"""
