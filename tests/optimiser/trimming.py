"""Loops that trim edges, in the ways people write them: most find strong components, some nearly do."""

from __future__ import annotations

from dataclasses import dataclass

from everview import col
from everview.language.collection import Collection


@dataclass(frozen=True)
class Spelling:
    """Where a stage selects from, which ends start with labels, which end of the order wins."""

    stages: int = 2
    selects: tuple[str, str] = ("all", "all")
    starts: tuple[str, str] = ("T", "S")
    best: tuple[str, str] = ("min", "min")
    starts_inside: bool = False
    turned: bool = False

    def labels(self, number: int, inside: Collection, edge: Collection, forwards: bool) -> Collection:
        """Labels that spread along (src, dst), or against them."""
        ends = inside if self.starts_inside else edge
        names = {"S": ends.src, "T": ends.dst}
        parts = [ends.select(node=names[e], label=names[e]) for e in self.starts[number]]
        start = parts[0].union_all(*parts[1:]).distinct()
        near, far = (inside.src, inside.dst) if forwards else (inside.dst, inside.src)

        def spread(known: Collection) -> Collection:
            heard = known.join(inside, known.node == near).select(node=far, label=known.label)
            best = col.label.min() if self.best[number] == "min" else col.label.max()
            return heard.union_all(start).group_by("node").agg(label=best)

        return start.iterate(spread)

    def collection(self, edge: Collection) -> Collection:
        def same(edges: Collection, label: Collection) -> Collection:
            source, target = label.alias("source"), label.alias("target")
            tagged = edges.join(source, edges.src == source.node).join(target, edges.dst == target.node)
            return tagged.filter(source.label == target.label).select(src=edges.src, dst=edges.dst)

        def body(inside: Collection) -> Collection:
            named = {"all": edge, "variable": inside}
            order = (False, True) if self.turned else (True, False)
            if self.stages == 1:
                both = [self.labels(i, inside, edge, order[i]) for i in range(2)]
                return same(same(named[self.selects[0]], both[0]), both[1])
            first = same(named[self.selects[0]], self.labels(0, inside, edge, order[0]))
            second = self.labels(1, first, edge, order[1])
            return same({**named, "first": first}[self.selects[1]], second)

        return edge.iterate(body)
