"""The paper's idea: stages, clocks, schedules, carry, and one frame of a clockwork network."""
