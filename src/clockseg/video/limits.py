"""How large a picture and how long a video may be, unless more is asked for."""

from __future__ import annotations

MAX_PIXELS = 64_000_000
"""Of a picture: larger ones are refused before they are decoded."""
MAX_HOURS = 100.0
"""Of a video: more is taken for a header that lies."""
