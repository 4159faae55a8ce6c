"""What ``clockseg cut`` tells of a network that it has cut."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from clockseg.cli._table import align, percent

if TYPE_CHECKING:
    from clockseg.networks.cutting import CutNetwork


def report(found: CutNetwork) -> str:
    """What was written and found, to read."""
    blocks = [_files(found), _settled(found), _cuts(found), _parts(found), _notes(found), _next(found)]
    return "\n\n".join(block for block in blocks if block)


def _files(found: CutNetwork) -> str:
    megabytes = found.file.stat().st_size / 1e6
    return f"{found.file} ({megabytes:.1f} MB)\n{found.file.with_suffix('.json')}"


def _settled(found: CutNetwork) -> str:
    rows = [(f"  {what}", value, why) for what, value, why in found.told]
    return "settled for you\n" + align(rows, left=3) if rows else ""


def _cuts(found: CutNetwork) -> str:
    shapes = {name: shape for part in found.inspection.parts for name, shape in part.cut.items()}
    lines = [
        f"  stage {number} ends at {' + '.join(f'{name} {_shape(shapes.get(name, ()))}' for name in cut)}"
        for number, cut in enumerate(found.sidecar.cuts, start=1)
    ]
    choice = found.choice
    if choice is not None:
        lines.append(f"  chosen for {choice.purpose}: {_share(choice.every_frame)}")
    if choice is not None and choice.runner_up is not None:
        cuts = ", ".join("+".join(cut) for cut in choice.runner_up.cuts)
        lines.append(f"  runner-up: {cuts}: {_share(choice.runner_up.every_frame)}")
    return "cut\n" + "\n".join(lines)


def _share(every_frame: float) -> str:
    return f"{percent(every_frame)} of the time goes into a frame on which only stage 1 fires"


def _shape(shape: tuple[int, ...]) -> str:
    return "x".join(map(str, shape))


def _parts(found: CutNetwork) -> str:
    seen = found.inspection
    rows: list[tuple[str, ...]] = [("part", "reads", "G multiply-adds", "ms", "share")]
    rows += [
        (
            part.name,
            ", ".join(part.reads),
            f"{part.multiply_adds / 1e9:.3g}",
            f"{1e3 * part.seconds:.1f}",
            percent(part.share),
        )
        for part in seen.parts
    ]
    whole = seen.whole
    rows.append(("whole", "", f"{whole.multiply_adds / 1e9:.3g}", f"{1e3 * whole.seconds:.1f}", ""))
    width, height = seen.size
    return "\n".join(
        [
            f"cost at {width}x{height} in {seen.engine}, threads: {seen.threads}",
            align(rows, left=2),
            f"in parts as whole: {_apart(found)}",
        ]
    )


def _apart(found: CutNetwork) -> str:
    if found.apart == (0, 0):
        return "the same, number by number, on noise and on a picture"
    if found.apart.difference:
        return f"at most {found.apart.difference:.1e} of the largest value apart, on noise and on a picture"
    return f"{percent(found.apart.labels)} of labels unequal, on noise and on a picture"


def _notes(found: CutNetwork) -> str:
    warning = found.inspection.warning
    lines = [f"note: {note}" for note in found.notes] + ([] if warning is None else [f"warning: {warning}"])
    return "\n".join(lines)


def _next(found: CutNetwork) -> str:
    """What to run now."""
    file, stages = found.file, len(found.sidecar.cuts)
    lines = [
        f"recommended schedule: {found.sidecar.schedule or 'none'}",
        "next:",
        f"  clockseg segment VIDEO --network {file} --out results",
        "  # which schedules pay, clocks on stages among them, measured on your video:",
        f"  clockseg plan VIDEO --network {file} --keep 0.98 --out {file.with_suffix('.toml')}",
    ]
    if found.sidecar.classes and not found.sidecar.scores and stages > 1:
        lines += [
            "  # class scores for clocks to watch, learned from unlabelled video:",
            f"  clockseg train heads {file} VIDEO --out {_beside(file, 'heads')}",
        ]
    lines += ["  # int8:", f"  clockseg quantize {file} VIDEO --out {_beside(file, 'int8')}"]
    return "\n".join(lines)


def _beside(file: Path, what: str) -> Path:
    return file.with_name(f"{file.stem}-{what}.onnx")
