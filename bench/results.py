"""What was measured, and what follows from it: medians, spread, ratios, targets."""

from __future__ import annotations

from dataclasses import asdict, dataclass, field
from statistics import median
from typing import Any

from .cases import Case
from .measure import Sample
from .targets import TARGETS, Metric, Target

Json = dict[str, Any]


@dataclass
class Measured:
    """One contender of one case with its runs, or why there are none."""

    name: str
    label: str
    note: str
    command: str = ""
    samples: list[Sample] = field(default_factory=list)
    missing: str = ""
    """Why it was not run."""
    missing_word: str = ""
    """The same in two words."""
    failed: str = ""

    def values(self, metric: Metric, unit: str) -> list[float]:
        """List a metric of every run: rates a second, processor seconds per byte or operation, MiB."""
        return [value for sample in self.samples if (value := _value(sample, metric, unit)) is not None]

    def median(self, metric: Metric, unit: str) -> float | None:
        """Find the median of a metric."""
        values = self.values(metric, unit)
        return median(values) if values else None

    def spread(self, unit: str) -> float | None:
        """Find half the distance between the fastest and the slowest run, relative to the median."""
        rates = self.values("rate", unit)
        return (max(rates) - min(rates)) / 2 / median(rates) if rates else None

    def quantile_us(self, what: str, rank: str) -> float | None:
        """Find the median over runs of a quantile of times."""
        tables = [table for sample in self.samples if isinstance(table := sample.details.get(what), dict)]
        return median(float(table[rank]) for table in tables) if tables else None


@dataclass
class Result:
    """One case with all its contenders."""

    case: Case
    measured: list[Measured]

    def find(self, name: str) -> Measured | None:
        """Find a contender by name."""
        return next((one for one in self.measured if one.name == name), None)

    def ratio(self, one: Measured) -> float | None:
        """Compare the rate of a contender with that of the reference."""
        reference = self.find(self.case.reference)
        return _ratio(one, reference, "rate", self.case.unit) if reference else None


@dataclass(frozen=True)
class Verdict:
    """A target and what was measured."""

    target: Target
    measured: float | None
    why_not: str = ""

    @property
    def word(self) -> str:
        """Say it in a word."""
        if self.measured is None:
            return "not measured"
        return "reached" if self.target.is_reached(self.measured) else "not reached"


def _value(sample: Sample, metric: Metric, unit: str) -> float | None:
    amount = sample.bytes if unit == "bytes" else sample.operations
    if metric == "rate":
        return amount / sample.seconds
    if metric == "resident_mib":
        return sample.memory.resident / (1 << 20)
    if metric == "own_mib":
        return sample.memory.anonymous / (1 << 20)
    spent = sample.server_cpu_s if metric == "server_cpu" else sample.client_cpu_s
    return None if spent is None or amount == 0 else spent / amount


def _ratio(one: Measured, other: Measured, metric: Metric, unit: str) -> float | None:
    mine, theirs = one.median(metric, unit), other.median(metric, unit)
    return mine / theirs if mine is not None and theirs else None


def verdicts(results: list[Result]) -> list[Verdict]:
    """Judge every target."""
    known = {result.case.name: result for result in results}
    return [_judge(target, known) for target in TARGETS]


def _judge(target: Target, known: dict[str, Result]) -> Verdict:
    result = known.get(target.case)
    peers = known.get(target.peer_case or target.case)
    if result is None or peers is None:
        return Verdict(target, None, "the case was not run")
    one = result.find(target.contender)
    if one is None or not one.samples:
        return Verdict(target, None, _why(one, target.contender))
    if target.peer is None:
        return Verdict(target, one.median(target.metric, result.case.unit))
    peer = peers.find(target.peer)
    if peer is None or not peer.samples:
        return Verdict(target, None, _why(peer, target.peer))
    return Verdict(target, _ratio(one, peer, target.metric, result.case.unit))


def _why(one: Measured | None, name: str) -> str:
    return (one.missing or one.failed) if one else f"{name} was left out"


def to_json(results: list[Result], machine: Json, versions: Json, options: Json) -> Json:
    """Put everything into one value."""
    return {
        "format": 1,
        "machine": machine,
        "versions": versions,
        "options": options,
        "cases": [
            {
                "name": result.case.name,
                "title": result.case.title,
                "unit": result.case.unit,
                "reference": result.case.reference,
                "contenders": [_contender_json(one, result) for one in result.measured],
            }
            for result in results
        ],
        "targets": [
            {**asdict(verdict.target), "measured": verdict.measured, "verdict": verdict.word, "why": verdict.why_not}
            for verdict in verdicts(results)
        ],
    }


def _contender_json(one: Measured, result: Result) -> Json:
    unit = result.case.unit
    return {
        "name": one.name,
        "label": one.label,
        "integrity": one.note,
        "command": one.command,
        "missing": one.missing,
        "missing_word": one.missing_word,
        "failed": one.failed,
        "rate": one.median("rate", unit),
        "spread": one.spread(unit),
        "server_cpu": one.median("server_cpu", unit),
        "client_cpu": one.median("client_cpu", unit),
        "resident_mib": one.median("resident_mib", unit),
        "own_mib": one.median("own_mib", unit),
        "ratio": result.ratio(one),
        "runs": [asdict(sample) for sample in one.samples],
    }
