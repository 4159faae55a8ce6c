"""Windows in which a pipeline looks better or worse than skip-frame (the supplement's figures and its video of four panels).

Protocol: a seeded sample of windows of all clips, each run as a shot of its own and ranked by how much more the 3-stage
pipeline agrees with the frame oracle than skip-frame does. The best, the worst and a random one are drawn. Command:
``clockseg reproduce qualitative --data DIR --weights DIR``. Cost: 24 windows of ten frames, three passes per frame.
"""

from __future__ import annotations

from functools import partial
from pathlib import Path

from clockseg.paper.report import Figure, Report
from clockseg.paper.rows import Claim
from clockseg.paper.screening import screen
from clockseg.paper.source import Setting, Source
from clockseg.paper.videos import pipeline_video
from clockseg.paper.windows import Ranking, compared, draw_window, picks, rank_windows

PROTOCOL = """\
A seeded sample of windows of six frames from all clips, each with four more frames before it that fill the pipeline. They are
ranked by the gain of the 3-stage pipeline over skip-frame in agreement with the frame oracle (mean IU over the window, classes
with at least 0.1 % of the oracle's pixels). Skip-frame equals the oracle on the frames on which it fires, so it has a head
start. The paper's supplement shows the windows with the largest gain; here the worst and a random one are drawn too."""

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
    lines = []
    for place, one in enumerate(ranking.ranks, start=1):
        shares = (f"{100 * share:.1f}" for share in (one.pipeline, one.skip_frame, one.gained))
        lines.append((str(place), one.clip, f"{one.frames[0]}-{one.frames[-1]}", *shares))
    return HEAD, *lines


def _gained(ranking: Ranking) -> Claim:
    ahead = sum(one.gained > 0 for one in ranking.ranks)
    where, figures = f"{len(ranking.ranks)} windows", f"in {ahead} of {len(ranking.ranks)}"
    return Claim(
        "the pipeline agrees more than skip-frame in most windows", where, 2 * ahead > len(ranking.ranks), figures
    )


def _draw(source: Source, ranking: Ranking, rank: int, name: str, path: Path) -> None:
    draw_window(source.networks.full, source.clips, ranking, rank, path.with_name(f"{path.name}.png"), name=name)


def _panels(source: Source, path: Path) -> None:
    net = source.networks.full
    pipeline_video(screen(net, source.clips[0], compared(net)), path.with_suffix(".mp4"))
