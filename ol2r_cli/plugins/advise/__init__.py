"""From a click log to a decision: what online learning would gain, with an interval."""
