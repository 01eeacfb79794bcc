"""Whether steps that overlap in time can be put into one order, by trying (Wing and Gong, 1993; Lowe, 2017)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

TRIES_MAX = 300_000
"""Beyond this nothing is claimed: the time grows with the number of steps that overlap."""


@dataclass(frozen=True)
class Step:
    """Something that happened at one moment between `begin` and `end`."""

    begin: float
    end: float
    changes: frozenset[tuple[str, str]]
    """From which state to which: `*` is any state, `+` any but the empty one."""
    must_happen: bool = True

    def after(self, state: str) -> list[str]:
        """Tell which states follow."""
        fits = [(old, new) for old, new in self.changes if old in ("*", state) or (old == "+" and state)]
        return [new for _, new in fits]


def can_be_ordered(steps: Sequence[Step], state: str) -> bool:
    """Tell whether an order exists in which all steps that must happen are possible."""
    ordered = sorted(steps, key=lambda step: step.begin)
    must = sum(1 << number for number, step in enumerate(ordered) if step.must_happen)
    seen: set[tuple[int, str]] = set()
    heap = [(0, state)]
    while heap:
        done, state = heap.pop()
        if done & must == must or len(seen) > TRIES_MAX:
            return True
        if (done, state) in seen:
            continue
        seen.add((done, state))
        # A step that is not done yet can come next unless another one ended before it began.
        limit = min(step.end for number, step in enumerate(ordered) if must >> number & 1 and not done >> number & 1)
        for number, step in enumerate(ordered):
            if step.begin > limit:
                break
            if not done >> number & 1:
                heap += [(done | 1 << number, new) for new in step.after(state)]
    return False
