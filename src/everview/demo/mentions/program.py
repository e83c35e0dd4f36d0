"""The views of the story: a join with the open slots, strongly connected components, and two aggregates on top.

Everything downstream of `window` follows from ordinary operators. Nothing here knows that a window slides, in which
direction, or that mentions arrive as a stream.
"""

from __future__ import annotations

from dataclasses import dataclass

import everview as ev
from everview import col
from everview.graph import Graph

MENTION = {"slot": int, "src": int, "dst": int, "tag": str}


@dataclass(frozen=True)
class Program:
    """Two tables and the views over them."""

    db: ev.Session
    mention: ev.Table
    """(slot, src, dst, tag): everything ever said"""
    window: ev.Table
    """(slot): the slots that are open"""
    current: ev.View
    """(src, dst, tag): the mentions of open slots"""
    member: ev.View
    """(node, component): who is in a component of two people or more"""
    size: ev.View
    """(component, people)"""
    favourite: ev.View
    """(component, tag, mentions): the tag used most among mentions inside the component"""
    link: ev.View
    """(src, dst): who mentions whom inside a component, each pair once"""


def install(db: ev.Session) -> Program:
    """Declare the tables and install the views."""
    mention = db.table("mention", MENTION)
    window = db.table("window", {"slot": int})
    opened = mention.join(window, mention.slot == window.slot)
    current = db.view("current", opened.select(src=mention.src, dst=mention.dst, tag=mention.tag))

    scc = Graph(current.select("src", "dst").distinct()).scc()
    size = db.view("size", scc.group_by("component").agg(people=ev.count()).filter(col.people > 1))
    members = scc.join(size, scc.component == size.component)
    member = db.view("member", members.select(node=scc.node, component=scc.component))

    one, other = member.alias("one"), member.alias("other")
    inside = current.join(one, current.src == one.node).join(other, current.dst == other.node)
    inside = inside.filter(one.component == other.component)
    inside = inside.select(component=one.component, src=current.src, dst=current.dst, tag=current.tag)
    uses = inside.group_by("component", "tag").agg(mentions=ev.count())
    favourite = uses.group_by("component").top(1, by=(col.mentions.desc(), col.tag.asc()))
    return Program(
        db,
        mention,
        window,
        current,
        member,
        size,
        db.view("favourite", favourite),
        db.view("link", inside.select("src", "dst").distinct()),
    )
