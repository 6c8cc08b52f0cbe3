"""What runs programs: takes tuples, finds results, stops for want of room.

- :mod:`~thalweg.engine.machine.workspace`: the arrays that windows, states, feedback and the machine share.
- :mod:`~thalweg.engine.machine.machine`: takes tuples, runs programs, hands out what they find.
- :mod:`~thalweg.engine.machine.frames`: where the machine is between two calls.
- :mod:`~thalweg.engine.machine.step_work`: what was done, instruction by instruction.
- :mod:`~thalweg.engine.machine.eddy`: decides after every probe where a tuple goes next.
- :mod:`~thalweg.engine.machine.accounts`: what probes are paid from under a budget, and what was refused.
"""
