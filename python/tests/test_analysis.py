"""Plans, packets and merging: who computes what never changes a result."""

from __future__ import annotations

import itertools
import random
from pathlib import Path
from typing import Any

import hist
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import backplane
from backplane import HistRequest, NTuple
from backplane.analysis import merge
from backplane.analysis._collect import Collector
from backplane.analysis._merge import Nodes
from backplane.analysis._plan import Plan, Selection
from backplane.analysis._schedule import Schedule, Task

ENTRIES = 300_000
FILES = 6

REQUESTS = [
    HistRequest("x", bins=50, range=(0, 100)),
    HistRequest("y", bins=20, range=(0, 100), where="n > 2", weight="w"),
    HistRequest(("x", "n"), axis=[hist.axis.Variable([0, 20, 50, 100]), hist.axis.Integer(0, 9)], weight="w * w"),
]
AXES = [("x", (50, 0.0, 100.0))]


def selection(weight: str | None = "w") -> Selection:
    histograms: Any = [([("y", (20, 0.0, 100.0))], "n > 2", weight), ([("x", [0.0, 20.0, 50.0])], None, None)]
    return Selection((("y", "sqrt(x * x + 1)"),), ("x > 10",), histograms, ["n", "x"])


def plan_of(chain: NTuple) -> Plan:
    return Plan(chain._chain, selection())


def same(one: Any, other: Any) -> None:
    """Equal to the last bit."""
    for first, second in zip(one, other, strict=True):
        np.testing.assert_array_equal(np.asarray(first), np.asarray(second), strict=True)
        assert isinstance(first, np.ma.MaskedArray) == isinstance(second, np.ma.MaskedArray)
        if isinstance(first, np.ma.MaskedArray):
            np.testing.assert_array_equal(first.mask, second.mask)


def test_a_plan_is_bytes_that_another_process_runs(chain: NTuple) -> None:
    plan = plan_of(chain)
    again = Plan.of(bytes(plan))
    assert (len(again), again.entries, again.selection) == (len(plan), plan.entries, plan.selection)
    assert sum(plan.entries) == FILES * ENTRIES
    assert len(plan) == 7
    one, other = plan.run(2, 5, 2), again.run(2, 5, 1)
    same(one.arrays, other.arrays)
    same(one.counts[1:], other.counts[1:])
    assert [node[:2] for node in one.nodes] == [node[:2] for node in other.nodes] == [(1, 1), (0, 4)]


def test_a_damaged_plan_is_refused(chain: NTuple) -> None:
    data = bytes(plan_of(chain))
    with pytest.raises(backplane.CorruptError, match="plan is damaged"):
        Plan.of(data[:-20])
    with pytest.raises(backplane.UnsupportedError, match="another version"):
        Plan.of(b"x" + data)
    with pytest.raises(backplane.InvalidError, match=r"packets 0\.\.99"):
        Plan.of(data).run(0, 99, 1)


def test_a_worker_refuses_a_file_that_is_another(wide: Path, tmp_path: Path) -> None:
    place = tmp_path / "f.parquet"
    place.write_bytes((wide / "0.parquet").read_bytes())
    data = bytes(plan_of(backplane.ntuple(place)))
    place.write_bytes((wide / "1.parquet").read_bytes())
    with pytest.raises(backplane.InvalidError, match="not the file that the n-tuple was opened with"):
        Plan.of(data).run(0, 1, 1)


@pytest.mark.parametrize("seed", range(6))
def test_any_division_order_and_repetition_gives_the_result_of_one_pass(chain: NTuple, seed: int) -> None:
    rng, plan = random.Random(seed), plan_of(chain)
    cuts = sorted({0, len(plan), *(rng.randrange(len(plan)) for _ in range(seed))})
    ranges = list(itertools.pairwise(cuts))
    rng.shuffle(ranges)
    collector, workers = Collector(plan), [Plan.of(bytes(plan)) for _ in range(2)]
    for number, (first, end) in enumerate([*ranges, *ranges[:1]]):
        part = rng.choice(workers).run(first, end, rng.choice([1, 3]))
        assert collector.add(part) == (number < len(ranges)), "a packet counts once"
    whole = backplane.analysis._engine.EMBEDDED.run(chain._chain, selection(), 0, None, None)
    same(collector.bins(), whole.bins)
    same(collector.arrays(), whole.arrays)
    assert collector.entries == FILES * ENTRIES


def test_partial_histograms_grow_to_the_result(chain: NTuple) -> None:
    shown: list[list[float]] = []
    told: list[tuple[int, int]] = []
    found = chain.hists(
        REQUESTS,
        partial=lambda now: shown.append([float(np.sum(one.values(flow=True))) for one in now]),
        progress=lambda done, total: told.append((done, total)),
    )
    assert found == chain.hists(REQUESTS)
    assert len(shown) > 1
    assert shown == sorted(shown)
    assert told == sorted(told)
    assert told[-1] == (FILES * ENTRIES, FILES * ENTRIES)


# Merging


VALUES = st.one_of(st.integers(), st.floats(allow_nan=False, allow_infinity=False))


@given(values=st.lists(VALUES, min_size=1, max_size=40), data=st.data())
def test_nodes_add_in_one_order(values: list[float], data: st.DataObject) -> None:
    order = data.draw(st.permutations(range(len(values))))
    nodes, straight = Nodes(), Nodes()
    for packet in order:
        nodes.add(0, packet, {"sum": values[packet], "all": [packet]})
    for packet, value in enumerate(values):
        straight.add(0, packet, {"sum": value, "all": [packet]})
    assert nodes.total() == straight.total()
    assert nodes.total()["all"] == list(range(len(values)))


def test_results_merge_by_type() -> None:
    pandas = pytest.importorskip("pandas")
    ak = pytest.importorskip("awkward")
    filled: list[Any] = [hist.Hist(hist.axis.Regular(3, 0, 3)).fill([value]) for value in (0.5, 1.5)]
    first = {"n": 1, "h": filled[0], "l": [1], "s": {1}, "t": (1, 2.0), "a": np.ones(2), "none": None, "f": 1}
    second = {"n": 2, "h": filled[1], "l": [2], "s": {2}, "t": (3, 4.0), "a": np.ones(2), "none": 5, "g": 2}
    merged = merge(first, second)
    assert merged["a"].tolist() == [2, 2]
    assert merged["h"].values().tolist() == [1, 1, 0]
    rest = {key: merged[key] for key in merged if key not in ("a", "h")}
    assert rest == {"n": 3, "l": [1, 2], "s": {1, 2}, "t": (4, 6.0), "none": 5, "f": 1, "g": 2}
    assert first["l"] == [1], "what is merged is not changed"
    assert merge(ak.Array([[1], []]), ak.Array([[2, 3]])).tolist() == [[1], [], [2, 3]]
    assert merge(pandas.DataFrame({"x": [1]}), pandas.DataFrame({"x": [2]})).x.tolist() == [1, 2]


@pytest.mark.parametrize(
    ("first", "second"), [("a", "b"), (True, True), (1, [2]), (np.ones(2), np.ones(3)), (object(), object())]
)
def test_what_cannot_be_merged_is_refused(first: object, second: object) -> None:
    with pytest.raises(backplane.InvalidError, match="cannot be merged"):
        merge(first, second)


# Who gets which packets


@given(
    entries=st.lists(st.integers(1, 1000), min_size=1, max_size=60),
    homes=st.dictionaries(st.integers(0, 59), st.sampled_from("ab")),
    turns=st.lists(st.tuples(st.sampled_from("abc"), st.floats(0, 10), st.booleans()), max_size=30),
)
@settings(max_examples=200)
def test_every_packet_is_given_until_it_is_done(
    entries: list[int], homes: dict[int, str], turns: list[tuple[str, float, bool]]
) -> None:
    schedule = Schedule(entries, {packet: home for packet, home in homes.items() if packet < len(entries)})
    done: list[int] = []

    def finish(worker: str, seconds: float, dies: bool) -> bool:
        task = schedule.give(worker, 3)
        if task is None:
            return False
        assert 0 <= task.first < task.end <= len(entries)
        if dies:
            schedule.put_back([task])
        else:
            done.extend(range(task.first, task.end))
            schedule.observe(worker, task, seconds)
        return True

    for turn in turns:
        finish(*turn)
    while finish("a", 0.1, False):
        pass
    assert sorted(done) == list(range(len(entries)))
    assert schedule.left == 0


def test_packets_go_where_their_columns_are() -> None:
    schedule = Schedule([100] * 8, {0: "a", 1: "a", 2: "b", 3: "b", 4: "b", 5: "b"})
    assert schedule.give("a", 1) == Task(0, 1)
    schedule.observe("a", Task(0, 1), 0.25)
    assert schedule.give("b", 1) == Task(2, 3)
    assert schedule.give("a", 1) == Task(1, 2)
    assert schedule.give("a", 1) == Task(6, 8), "nobody's come before others'; as many as fit into the time of a task"
    assert schedule.give("a", 1) == Task(5, 6), "others are helped from their end"
    assert schedule.give("c", 1) == Task(4, 5)
