"""Windows in which a pipeline looks better or worse than skip-frame (the supplement's figures and its video of four panels).

Protocol: a seeded sample of windows of all clips, each run as a shot of its own; ranked by how much more the 3-stage
pipeline agrees with the frame oracle than skip-frame does. The best, the worst and a random one are drawn. Command:
``clockseg reproduce qualitative --data DIR --weights DIR``. Cost: 24 windows of ten frames, three passes a frame.
"""

from __future__ import annotations

from functools import partial
from pathlib import Path

from clockseg.clockwork.schedule import pipelined, skip_frame
from clockseg.paper.report import Figure, Report
from clockseg.paper.rows import Claim
from clockseg.paper.screening import screen
from clockseg.paper.source import Setting, Source
from clockseg.paper.videos import pipeline_video
from clockseg.paper.windows import Ranking, draw_window, picks, rank_windows

PROTOCOL = """\
Windows of six frames that a seed draws from all clips, four more before each to fill the pipeline; ranked by what the
3-stage pipeline's agreement with the frame oracle (mean IU over the window, classes of at least 0.1 % of the oracle's
pixels) is above skip-frame's. On its firing frames skip-frame is the oracle, so it starts ahead; the paper's supplement
shows the windows with the greatest gain, here the worst and a random one stand beside them."""

HEAD = ("rank", "clip", "frames", "pipeline", "skip-frame", "gained")
ENDS = 1


def run(setting: Setting) -> Report:
    """Rank, draw both ends and a random window, and show the four panels of the first clip."""
    source = setting.films()
    ranking = rank_windows(source.networks.full, source.clips)
    figures = [
        Figure(
            f"qualitative-{name}",
            f"Rank {rank + 1} of {len(ranking.ranks)}",
            partial(_draw, source, ranking, rank, name),
            suffix=".png",
        )
        for name, rank in picks(len(ranking.ranks), ENDS, seed=ranking.sample.seed).items()
    ]
    panels = Figure(
        "pipeline", "Input, frame oracle, pipeline and skip-frame as video", partial(_panels, source), ".mp4"
    )
    return Report(
        "qualitative",
        "Windows in which a pipeline gains over skip-frame",
        PROTOCOL,
        claims=(_gained(ranking),),
        notes=setting.notes,
        figures=(*figures, panels),
        extra={"ranking": ranking.facts()},
        table=_table(ranking),
    )


def _table(ranking: Ranking) -> tuple[tuple[str, ...], ...]:
    shares = [(one.schedule, one.skip_frame, one.gained) for one in ranking.ranks]
    lines = (
        (str(place), one.clip, f"{one.frames[0]}-{one.frames[-1]}", *(f"{100 * share:.1f}" for share in found))
        for place, (one, found) in enumerate(zip(ranking.ranks, shares, strict=True), start=1)
    )
    return HEAD, *lines


def _gained(ranking: Ranking) -> Claim:
    ahead = sum(one.gained > 0 for one in ranking.ranks)
    where, figures = f"{len(ranking.ranks)} windows", f"in {ahead} of {len(ranking.ranks)}"
    return Claim(
        "the pipeline agrees more than skip-frame in most windows", where, 2 * ahead > len(ranking.ranks), figures
    )


def _draw(source: Source, ranking: Ranking, rank: int, name: str, path: Path) -> None:
    draw_window(source.networks.full, source.clips, ranking, rank, path, name=name)


def _panels(source: Source, path: Path) -> None:
    net = source.networks.full
    schedules = {f"pipelined({len(net)})": pipelined(len(net)), "skip_frame(2)": skip_frame(2)}
    pipeline_video(screen(net, source.clips[0], schedules), path.with_suffix(".mp4"))
