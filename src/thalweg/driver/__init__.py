"""Runs a bucket: chooses its plan, asks the controller, obeys commands, keeps the history.

In process and on Spark alike. Whoever owns the bucket brings rows and says how far time has come.

- :mod:`~thalweg.driver.planning`: the first plan, and what the first rows say of the streams.
- :mod:`~thalweg.driver.bucket_driver`: a bucket, its plan, and who decides about it.
- :mod:`~thalweg.driver.deciders`: who decides about it while it runs.
- :mod:`~thalweg.driver.budgeting`: what is done about a budget.
- :mod:`~thalweg.driver.batches`: a batch on its way through a bucket.
- :mod:`~thalweg.driver.phases`: where the time of a batch goes.
- :mod:`~thalweg.driver.measures`: what a batch did.
"""
