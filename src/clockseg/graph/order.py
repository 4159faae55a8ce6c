"""Nodes of an ONNX graph in the order in which they can run."""

from __future__ import annotations

import heapq

import onnx

from clockseg.graph.static import captured


def in_order(graph: onnx.GraphProto) -> None:
    """Sort the nodes of ``graph`` in place so that each comes behind what it reads; as they were where they already do.

    ONNX wants them so, engines don't mind, and converters to half precision append their casts at the end. Nodes in a
    circle are left at the end, for the checker to complain of.

    >>> add = onnx.helper.make_node
    >>> graph = onnx.helper.make_graph([add("Relu", ["a"], ["b"]), add("Neg", ["x"], ["a"])], "g", [], [])
    >>> in_order(graph)
    >>> [node.op_type for node in graph.node]
    ['Neg', 'Relu']
    """
    makers = {name: index for index, node in enumerate(graph.node) for name in node.output if name}
    needs = [{makers[name] for name in (*node.input, *captured(node)) if name in makers} for node in graph.node]
    if all(max(before, default=-1) < index for index, before in enumerate(needs)):
        return
    nodes = [onnx.NodeProto.FromString(node.SerializeToString()) for node in graph.node]
    order = _sorted(needs)
    del graph.node[:]
    graph.node.extend(nodes[index] for index in order)


def _sorted(needs: list[set[int]]) -> list[int]:
    """Positions so that each comes behind those it needs; the earliest of what can come next is next."""
    readers: dict[int, list[int]] = {}
    for index, before in enumerate(needs):
        for one in before:
            readers.setdefault(one, []).append(index)
    left = [len(before) for before in needs]
    ready = [index for index, count in enumerate(left) if not count]
    found: list[int] = []
    while ready:
        index = heapq.heappop(ready)
        found.append(index)
        for reader in readers.get(index, ()):
            left[reader] -= 1
            if not left[reader]:
                heapq.heappush(ready, reader)
    return [*found, *(index for index, count in enumerate(left) if count)]
