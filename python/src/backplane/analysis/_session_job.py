"""The job of a result of a session: ``python -m backplane.analysis._session_job DIRECTORY``."""

from __future__ import annotations

import os
import sys
import time
from pathlib import Path
from typing import Any

from .. import connect
from ._engine import _in_steps
from ._plan import Plan
from ._session import Snapshot

# How often others can see how far it is: each time a file of the facility is replaced.
_SHOWN_S = 2.0


def main(directory: str) -> None:
    """Compute the plan in the working directory, and keep what there is so far in the facility.

    Parameters
    ----------
    directory : str
        Of the result, in the facility.
    """
    facility = connect()
    shown = float("-inf")
    done, total, bins = 0, 0, list[Any]()

    def show(snapshot: Snapshot) -> None:
        facility.write_bytes(f"{directory}/snapshot", bytes(snapshot))

    def told(now: int, of_all: int) -> None:
        nonlocal done, total
        done, total = now, of_all

    def partial(now: list[Any]) -> None:
        nonlocal shown, bins
        bins = now
        if time.monotonic() - shown > _SHOWN_S:
            show(Snapshot(done, total, bins=bins))
            shown = time.monotonic()

    try:
        plan = Plan.of(Path("plan").read_bytes())
        total = sum(plan.entries)
        outcome = _in_steps(plan, int(os.environ.get("BP_SESSION_THREADS", "0")), told, partial)
    except Exception as error:
        show(Snapshot(done, total, error=str(error) or type(error).__name__, bins=bins))
        raise
    show(Snapshot(total, total, is_final=True, bins=outcome.bins))


if __name__ == "__main__":
    main(sys.argv[1])
