"""What ``clockseg.planning`` is made of."""
