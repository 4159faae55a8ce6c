"""Networks: bundled ones by name, and those of users, cut into stages."""

from pathlib import Path

BUNDLED = ("scene", "scene-int8", "street", "street-large", "street-int8", "street-large-int8")
"""The networks that come with clockseg."""
WEIGHTS = Path(__file__).parent / "weights"
INSTALLED = tuple(name for name in BUNDLED if (WEIGHTS / f"{name}.onnx").is_file())
"""Those that are here: the wheel leaves out the largest."""
ANY_VIDEO = "scene"
"""The default for videos without labels: it knows 32 classes of everyday scenes."""
DRIVING = "street"
"""The default for labelled clips, such as CamVid's, whose classes it has."""
