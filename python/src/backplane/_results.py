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
        Counts, or pairs of sums of weights and of their squares, by axis; an empty histogram if left out.
    is_weighted : bool
        Whether it has weights.

    Returns
    -------
    hist.Hist
        Flow bins included.
    """
    import hist
    import hist.storage

    storage = hist.storage.Weight() if is_weighted else hist.storage.Int64()
    filled: hist.Hist[Any] = hist.Hist(*axes, storage=storage)
    if bins is None:
        return filled
    view: Any = filled.view(flow=True)
    if is_weighted:
        view["value"], view["variance"] = bins[..., 0], bins[..., 1]
    else:
        view[...] = bins
    return filled


def as_profile(axes: Sequence[Any], sums: Sequence[npt.NDArray[Any]] | None, is_weighted: bool) -> hist.Hist[Any]:
    """Make a profile: the mean of a sample, and how far it scatters, in each bin.

    Parameters
    ----------
    axes : sequence of hist axes
        Its axes.
    sums : sequence of numpy.ndarray, optional
        By axis: counts, and pairs of sums of the sample and of its squares. With weights: pairs of sums of weights and
        of their squares, sums of the weighted sample, and of its weighted squares. An empty profile if left out.
    is_weighted : bool
        Whether it has weights.

    Returns
    -------
    hist.Hist
        With the storage `hist.storage.Mean`, or `hist.storage.WeightedMean`.
    """
    import hist
    import hist.storage

    storage = hist.storage.WeightedMean() if is_weighted else hist.storage.Mean()
    filled: hist.Hist[Any] = hist.Hist(*axes, storage=storage)
    if sums is None:
        return filled
    view: Any = filled.view(flow=True)
    if is_weighted:
        total, first, second = sums[0][..., 0], sums[1][..., 0], sums[2][..., 0]
        view["sum_of_weights"], view["sum_of_weights_squared"] = total, sums[0][..., 1]
        scatter = "_sum_of_weighted_deltas_squared"
    else:
        total, first, second = sums[0].astype("f8"), sums[1][..., 0], sums[1][..., 1]
        view["count"] = total
        scatter = "_sum_of_deltas_squared"
    mean = np.divide(first, total, out=np.zeros_like(first), where=total != 0)
    view["value"] = mean
    # Rounding may make it less than nothing where all values are equal.
    view[scatter] = np.maximum(second - mean * first, 0)
    return filled
