"""The fair claim in plain Python: start-time fair queueing over a tree, one e-mail at a time.

This module is the simplest form of the algorithm, which the SQL runs in batches and under locks. Tests compare the SQL
with this form; the forecast and the simulation use it without a database.
"""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass, field
from typing import Generic, TypeVar

T = TypeVar("T")


@dataclass(slots=True)
class Node(Generic[T]):
    weight: float = 1.0
    vtime: float = 0.0  # service received, divided by its weight
    reached: float = 0.0  # the virtual time among its children
    held: bool = False
    children: dict[str, Node[T]] = field(default_factory=dict)
    waiting: deque[T] = field(default_factory=deque)

    def is_active(self) -> bool:
        return not self.held and (bool(self.waiting) or any(c.is_active() for c in self.children.values()))


class FairTree(Generic[T]):
    """A tree of senders, which are paths such as ("acme", "acme.test", "ann", "spring campaign")."""

    def __init__(self) -> None:
        self.root: Node[T] = Node()

    def put(self, path: tuple[str, ...], item: T) -> None:
        """Add an e-mail. A sender that becomes active again joins at the current virtual time and gets no credit for
        having been idle.
        """
        node, way = self.root, []
        for key in path:
            way.append((node, key))
            node = node.children.setdefault(key, Node())
        for parent, key in way:
            child = parent.children[key]
            if not child.is_active():
                child.vtime = max(child.vtime, parent.reached)
        node.waiting.append(item)

    def take(self) -> T | None:
        """Return the next e-mail. At each level, the child that has received the least service for its weight is
        chosen.
        """
        node, way = self.root, []
        while not node.waiting:
            active = [c for c in node.children.values() if c.is_active()]
            if not active:
                return None
            child = min(active, key=lambda c: c.vtime)
            node.reached = max(node.reached, child.vtime)
            way.append(child)
            node = child
        for served in way:
            served.vtime += 1 / served.weight
        return node.waiting.popleft()

    def node(self, path: tuple[str, ...]) -> Node[T]:
        node = self.root
        for key in path:
            node = node.children.setdefault(key, Node())
        return node
