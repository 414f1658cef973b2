"""From a proposed action to the knob value that is applied: limits, rates, time to live."""
