"""Watching a join while it runs, and changing its plan, its gates or its slices, when that pays.

Read in this order:

- :mod:`~thalweg.adapt.monitor`: what is known of the streams by now, and of the work that the plan makes.
- :mod:`~thalweg.adapt.prices`: what a plan costs, what a change to it, and what it costs to watch.
- :mod:`~thalweg.adapt.ledger`: the account out of which all watching is paid.
- :mod:`~thalweg.adapt.running_plan`: the plan that runs, with its prices.
- :mod:`~thalweg.adapt.work_meter`: the work that was done, and whether it cost more than usual.
- :mod:`~thalweg.adapt.search_fund`: what is saved for and paid of looks and searches.
- :mod:`~thalweg.adapt.drift`: how far the streams have moved.
- :mod:`~thalweg.adapt.experience`: how far off the predictions for former plans were.
- :mod:`~thalweg.adapt.comparison`: whether there is cause to compare plans, which is best, and whether it pays.
- :mod:`~thalweg.adapt.decision`, :mod:`~thalweg.adapt.decision_log`: what is remembered of decisions.
- :mod:`~thalweg.adapt.controller`: when to look, to search and to change, with all of these.
- :mod:`~thalweg.adapt.promise`: what a tuple would cost if joins asked for parts that somebody needs.
- :mod:`~thalweg.adapt.production`: when feedback pays, with ``production="auto"``.
- :mod:`~thalweg.adapt.chains`: when slices of windows are split or merged.
- :mod:`~thalweg.adapt.spending`: how a budget is divided over probes, by what they were counted to lead to.
- :mod:`~thalweg.adapt.batch_spending`: the same batch by batch, where a batch may be run again.
- :mod:`~thalweg.adapt.batch_view`: what a controller may see there, so that its decisions can be committed.
- :mod:`~thalweg.adapt.calibration`: the rows of a batch do not stand for windows; what probes have found sets it right.
- :mod:`~thalweg.adapt.history`: the plans that a bucket has run under.

No decision ever changes an answer: a change of plan, of gates or of slices is a change of caches.
A budget is the user's decision; what is decided here is which results it leaves out.
"""
