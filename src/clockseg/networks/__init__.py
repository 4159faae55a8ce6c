"""Networks: bundled ones by name, and those of users, cut into stages."""

BUNDLED = ("street", "street-large", "street-stale", "street-int8", "street-large-int8")
"""The networks that come with clockseg; the first is the default."""
