"""The cut rule: how any network becomes stages, groups and a finish; and the sidecar that says where to cut."""

from clockseg.graph.neutral import Graph, Node
from clockseg.graph.rule import Division, divide
from clockseg.graph.sidecar import Input, Sidecar

__all__ = ["Division", "Graph", "Input", "Node", "Sidecar", "divide"]
