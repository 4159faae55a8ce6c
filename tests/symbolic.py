"""Networks on strings: what ran on which frame can be read off the output."""

from __future__ import annotations

from clockseg.clockwork.network import Group, Stage, StagedNetwork


def network(stages: int = 3, name: str = "symbolic") -> StagedNetwork:
    """Stage k writes its letter in front: with three stages frame "0" gives ``A0+BA0+CBA0``."""
    letters = "ABCDEFGH"[:stages]
    made = tuple(Stage(letter, (letter + "{}").format) for letter in letters)
    return StagedNetwork(name, made, (Group("fuse", tuple(letters), lambda *held: "+".join(held)),))


def frames_of(output: str) -> str:
    """The frame each stage reflects: ``A2+BA1+CBA0`` -> ``210``."""
    return "".join(part.lstrip("ABCDEFGH") for part in output.split("+"))
