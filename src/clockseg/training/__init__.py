"""Training a clock from a network's own outputs on video."""
