"""Results of the kernels as arrays and histograms."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from ._errors import UnsupportedError

if TYPE_CHECKING:
    import hist
    import numpy.typing as npt


def as_array(dtype: str, data: bytearray, missing: bytearray | None, counts: bytearray | None = None) -> Any:
    """Make an array of what a pass collected.

    Parameters
    ----------
    dtype : str
        NumPy type.
    data : bytearray
        Values; they are not copied.
    missing : bytearray, optional
        A byte for each value that is not 0 where it is missing.
    counts : bytearray, optional
        Of lists: the length of each, in 32 bits.

    Returns
    -------
    numpy.ndarray or awkward.Array
        Masked if values are missing; an awkward array of lists.
    """
    array: npt.NDArray[Any] = np.frombuffer(data, dtype)
    if counts is not None:
        return _as_lists(array, missing, np.frombuffer(counts, "<u4"))
    if missing is None:
        return array
    masked: npt.NDArray[Any] = np.ma.MaskedArray(array, np.frombuffer(missing, "?"))
    return masked


def _as_lists(array: npt.NDArray[Any], missing: bytearray | None, counts: npt.NDArray[Any]) -> Any:
    try:
        import awkward
    except ImportError as error:
        raise UnsupportedError("arrays of lists need the package awkward", "pip install awkward") from error
    elements = awkward.Array(array)
    if missing is not None:
        elements = awkward.mask(elements, np.frombuffer(missing, "?"), valid_when=False)
    return awkward.unflatten(elements, counts)


def as_bins(data: bytearray, is_weighted: bool) -> npt.NDArray[Any]:
    """Make an array of the bins of a histogram.

    Parameters
    ----------
    data : bytearray
        As the kernels give them; they are not copied.
    is_weighted : bool
        Whether they are pairs of sums of weights and of their squares.

    Returns
    -------
    numpy.ndarray
        Of one row for each bin.
    """
    if is_weighted:
        pairs: npt.NDArray[Any] = np.frombuffer(data, "<f8").reshape(-1, 2)
        return pairs
    counts: npt.NDArray[Any] = np.frombuffer(data, "<u8")
    return counts


def as_hist(axes: Sequence[Any], bins: npt.NDArray[Any] | None, is_weighted: bool) -> hist.Hist[Any]:
    """Make a histogram of its bins.

    Parameters
    ----------
    axes : sequence of hist axes
        Its axes.
    bins : numpy.ndarray, optional
        As `as_bins` gives them; an empty histogram if left out.
    is_weighted : bool
        Whether it has weights.

    Returns
    -------
    hist.Hist
        Flow bins included.
    """
    import hist
    import hist.storage

    shape = tuple(axis.extent for axis in axes)
    storage = hist.storage.Weight() if is_weighted else hist.storage.Int64()
    filled: hist.Hist[Any] = hist.Hist(*axes, storage=storage)
    if bins is None:
        return filled
    view: Any = filled.view(flow=True)
    if is_weighted:
        view["value"], view["variance"] = bins[:, 0].reshape(shape), bins[:, 1].reshape(shape)
    else:
        view[...] = bins.reshape(shape)
    return filled
