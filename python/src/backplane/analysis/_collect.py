"""What the parts of a pass give together."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from .._errors import InvalidError
from ._merge import Nodes

if TYPE_CHECKING:
    import numpy.typing as npt

    from ._plan import Part, Plan


class Collector:
    """Adds parts in any order; each packet counts once.

    Parameters
    ----------
    plan : Plan
        What the parts are of.
    """

    def __init__(self, plan: Plan) -> None:
        self._plan = plan
        self._is_done = bytearray(len(plan))
        self._counts: list[Any] = [None for _ in plan.selection.histograms]
        self._nodes = Nodes()
        self._arrays: dict[int, list[Any]] = {}
        self.entries = 0

    def add(self, part: Part) -> bool:
        """Add a part.

        Parameters
        ----------
        part : Part
            What some process computed.

        Returns
        -------
        bool
            False if it was there already: then nothing changes.
        """
        known = self._is_done[part.first : part.end]
        if all(known):
            return False
        if any(known):
            raise InvalidError(f"packets {part.first}..{part.end} were computed in part before")
        self._is_done[part.first : part.end] = b"\1" * (part.end - part.first)
        self.entries += part.entries
        for number, bins in enumerate(part.counts):
            if bins is not None:
                known_bins = self._counts[number]
                self._counts[number] = bins if known_bins is None else known_bins + bins
        for level, index, value in part.nodes:
            self._nodes.add(level, index, value)
        if self._plan.selection.arrays and self._plan.selection.function is None:
            self._arrays[part.first] = part.arrays
        return True

    @property
    def is_complete(self) -> bool:
        """Whether every packet is there."""
        return all(self._is_done)

    def bins(self) -> list[npt.NDArray[Any] | None]:
        """Give the bins of all histograms as far as they are filled.

        Returns
        -------
        list of numpy.ndarray or None
            Counts, or pairs of sums of weights and of their squares; `None` if nothing was filled.
        """
        sums = iter(self._nodes.total() or ())
        return [
            next(sums, None) if weighted else counts
            for counts, weighted in zip(self._counts, self._plan.selection.is_weighted, strict=True)
        ]

    def arrays(self) -> list[Any]:
        """Join the values of all entries.

        Returns
        -------
        list of numpy.ndarray
            In the order of the chain.
        """
        parts = [arrays for _, arrays in sorted(self._arrays.items())]
        return [_joined(pieces) for pieces in zip(*parts, strict=True)]

    def value(self) -> Any:
        """Add what the function returned.

        Returns
        -------
        object
            In the order of the chain; `None` if there was no entry.
        """
        total = self._nodes.total()
        return total[0] if total else None


def _joined(pieces: Sequence[Any]) -> Any:
    if not isinstance(pieces[0], np.ndarray):
        # Lists: one part may have missing values where another has none, which awkward tells apart.
        import awkward

        return awkward.concatenate(pieces)
    if any(isinstance(piece, np.ma.MaskedArray) for piece in pieces):
        masks = np.concatenate([np.ma.getmaskarray(piece) for piece in pieces])
        return np.ma.MaskedArray(np.concatenate([np.asarray(piece) for piece in pieces]), masks)
    return np.concatenate(pieces)
