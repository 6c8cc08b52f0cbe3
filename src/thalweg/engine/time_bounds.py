"""The two ends of time, in microseconds; inside 64 bits, so that adding a window to any instant cannot overflow."""

NEVER = -(2**62)
"""Before all time."""
FOREVER = 2**62
"""The expiry of what no time ends."""
GREATEST_TIME = 2**60
"""Event times stay well inside these ends, on either side of 1970 (about the year 38,000)."""
