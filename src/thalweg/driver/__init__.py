"""Runs a bucket: chooses its plan, asks the controller, obeys commands, keeps the history.

In process and on Spark alike. Whoever owns the bucket brings rows and says how far time has come.
"""
