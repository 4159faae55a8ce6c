"""Training of the paper's FCNs, by the published recipes and by one for narrow networks."""
