"""The Z peak: histogram over the chain, fit, picture."""

from __future__ import annotations

from pathlib import Path
from typing import NamedTuple

import matplotlib as mpl
import numpy as np
import numpy.typing as npt
from hist import Hist
from scipy.optimize import curve_fit

mpl.use("Agg")
import matplotlib.pyplot as plt

Array = npt.NDArray[np.float64]

MASS = "sqrt(2 * pt1 * pt2 * (cosh(eta1 - eta2) - cos(phi1 - phi2)))"
CUT = "pt1 > 20 and pt2 > 20 and abs(eta1) < 2.4 and abs(eta2) < 2.4 and q1 * q2 < 0"
RANGE = (60.0, 120.0)
BINS = 120
# The peak itself: further down the muons have lost energy to photons, which the formula does not describe.
FIT_RANGE = (87.0, 95.0)
PDG_MASS = 91.188


class Fit(NamedTuple):
    """What the fit found; GeV."""

    mass: float
    mass_error: float
    width: float
    curve: tuple[Array, Array]


def breit_wigner(energy: Array, area: float, mass: float, width: float, base: float, slope: float) -> Array:
    """Relativistic Breit-Wigner over a straight line: muons that radiated pile up below the peak."""
    gamma = np.sqrt(mass**2 * (mass**2 + width**2))
    scale = 2 * np.sqrt(2) * mass * width * gamma / (np.pi * np.sqrt(mass**2 + gamma))
    return area * scale / ((energy**2 - mass**2) ** 2 + mass**2 * width**2) + base + slope * (energy - mass)


def fit_peak(histogram: Hist) -> Fit:
    """Fit the peak by least squares with Poisson errors."""
    centres, counts = histogram.axes[0].centers, histogram.values()
    near = (centres > FIT_RANGE[0]) & (centres < FIT_RANGE[1])
    energy, count = centres[near], counts[near]
    start = (count.sum() * (energy[1] - energy[0]), float(energy[count.argmax()]), 2.5, 0.0, 0.0)
    errors = np.sqrt(np.maximum(count, 1))
    values, covariance = curve_fit(breit_wigner, energy, count, p0=start, sigma=errors, absolute_sigma=True)
    line = np.linspace(*FIT_RANGE, 400)
    return Fit(values[1], float(np.sqrt(covariance[1, 1])), abs(values[2]), (line, breit_wigner(line, *values)))


def draw(histogram: Hist, fit: Fit, file: Path, title: str) -> None:
    """Write the picture."""
    centres, counts = histogram.axes[0].centers, histogram.values()
    figure, axes = plt.subplots(figsize=(8, 5.5), layout="constrained")
    axes.errorbar(centres, counts, np.sqrt(counts), fmt="o", ms=3, lw=1, color="#1f2937", label="events")
    label = f"fit: m(Z) = {fit.mass:.2f} ± {fit.mass_error:.2f} GeV"
    axes.plot(*fit.curve, lw=2.2, color="#dc2626", label=label)
    axes.axvline(PDG_MASS, ls=":", lw=1, color="#6b7280", label=f"world average {PDG_MASS:.2f} GeV")
    axes.set(xlim=RANGE, xlabel="dimuon mass [GeV]", title=title)
    axes.set_ylabel(f"events per {(RANGE[1] - RANGE[0]) / BINS:.1f} GeV")
    axes.set_ylim(bottom=0)
    axes.legend(frameon=False, loc="upper left")
    axes.grid(alpha=0.25)
    figure.savefig(file, dpi=120)
    plt.close(figure)
