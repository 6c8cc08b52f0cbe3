"""Watching a join while it runs, and changing its plan when another one pays.

Read in this order: :mod:`~thalweg.adapt.monitor` (what is known of the streams by now, and of the work that the plan
makes), :mod:`~thalweg.adapt.prices` (what a plan costs, and what a change to it), :mod:`~thalweg.adapt.decision`
(what is remembered of a decision), :mod:`~thalweg.adapt.controller` (when to look, to search and to change).

No decision ever changes an answer: a change of plan is a change of caches.
"""
