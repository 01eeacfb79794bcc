"""The checker of histories: it accepts what one order explains, and refuses what none does."""

from __future__ import annotations

import random
from itertools import permutations
from pathlib import Path

import pytest

from history import BLOCK, CELL, FOREIGN, NEVER, Journal, Op, decode, encode, load, wrongs
from linear import Step, can_be_ordered

ANN, BOB = "ann", "bob"


def op(
    kind: str, who: str, begin: float, end: float, *values: str, file: str = "f", error: str = "", fd: int = 1
) -> Op:
    """Make an operation of somebody, who has a mount of the same name."""
    return Op(kind, who, who, file, fd, begin, end, error, 0, values)


def synced(who: str, begin: float, value: str, kind: str = "write", fd: int = 1) -> list[Op]:
    """Write and sync, in a second each."""
    return [op(kind, who, begin, begin + 1, value, fd=fd), op("sync", who, begin + 1, begin + 2, fd=fd)]


def read(who: str, begin: float, value: str) -> Op:
    """Read in one second."""
    return op("read", who, begin, begin + 1, value)


FAILED = "EIO"

LEGAL = {
    "nothing": [],
    "read after write": [*synced(ANN, 0, "1"), read(BOB, 3, "1")],
    "never written": [read(BOB, 0, "")],
    "either of two at once": [*synced(ANN, 0, "1"), *synced(BOB, 0.5, "2"), read(ANN, 4, "1"), read(BOB, 4, "1")],
    "a failed write is there": [op("write", ANN, 0, 1, "1", error=FAILED), read(BOB, 3, "1")],
    "a failed write is not there": [*synced(ANN, 0, "1"), op("write", BOB, 3, 4, "2", error=FAILED), read(ANN, 5, "1")],
    "a failed write comes late": [op("write", ANN, 0, 1, "1", error="ENOTCONN"), read(BOB, 0.5, ""), read(BOB, 3, "1")],
    "lost, and told so": [
        *synced(BOB, 0, "1"),
        op("write", ANN, 3, 4, "2"),
        read(ANN, 4, "2"),
        read(BOB, 5, "1"),
        op("sync", ANN, 6, 7, error=FAILED),
        read(ANN, 8, "1"),
    ],
    "lost with its process": [*synced(BOB, 0, "1"), op("write", ANN, 3, 4, "2"), read(BOB, 5, "1")],
    "half of a write that failed": [
        *synced(ANN, 0, "1"),
        op("write", BOB, 3, 4, "2", error=FAILED),
        read(ANN, 5, "1|2"),
    ],
    "append": [*synced(ANN, 0, "1", "append"), *synced(BOB, 3, "2", "append"), op("whole", ANN, 6, 7, "1", "2")],
    "a lost append, and told so": [
        op("append", ANN, 0, 1, "1"),
        op("close", ANN, 1, 2, error=FAILED),
        op("whole", BOB, 3, 4),
    ],
    "names": [
        op("put", ANN, 0, 1, "7"),
        op("stat", BOB, 2, 3, "7"),
        op("unlink", BOB, 4, 5),
        op("stat", ANN, 6, 7, error="ENOENT"),
    ],
    "a name that may have been removed": [
        op("put", ANN, 0, 1, "7"),
        op("unlink", BOB, 2, 3, error="EIO"),
        op("stat", ANN, 4, 5, "7"),
        op("stat", ANN, 6, 7, ""),
    ],
    "counter": [op("count", ANN, 0, 1, "0", "1"), op("count", BOB, 0.5, 2, "1", "2"), op("count", ANN, 3, 4, "2", "3")],
}

WRONG = {
    "a write is lost": [*synced(ANN, 0, "1"), read(BOB, 3, "")],
    "an old value comes back": [*synced(ANN, 0, "1"), *synced(BOB, 3, "2"), read(ANN, 6, "2"), read(BOB, 8, "1")],
    "a stale cache": [*synced(ANN, 0, "1"), *synced(BOB, 3, "2"), read(ANN, 6, "1")],
    "two see two orders": [
        *synced(ANN, 0, "1"),
        *synced(BOB, 0, "2"),
        read(ANN, 3, "1"),
        read(BOB, 5, "2"),
        read(ANN, 7, "1"),
    ],
    "read before it is written": [read(BOB, 0, "1"), *synced(ANN, 2, "1")],
    "bytes of nobody": [*synced(ANN, 0, "1"), read(BOB, 3, FOREIGN)],
    "half of two writes": [*synced(ANN, 0, "1"), *synced(BOB, 3, "2"), read(ANN, 6, "1|2")],
    "half zeros": [*synced(ANN, 0, "1"), read(BOB, 3, "1|")],
    "a failed write goes away again": [
        *synced(ANN, 0, "1"),
        op("write", BOB, 3, 4, "2", error=FAILED),
        read(ANN, 5, "2"),
        read(ANN, 7, "1"),
    ],
    "a failed write comes after the file was used": [
        *synced(ANN, 0, "1"),
        op("write", BOB, 3, 4, "2", error=FAILED),
        read(ANN, 5, "1"),
        read(ANN, 7, "1"),
        read(ANN, 9, "2"),
    ],
    "a write of a frozen host": [
        *synced(BOB, 0, "1"),
        op("write", ANN, 3, 4, "2"),
        *synced(BOB, 5, "3"),
        read(BOB, 7, "3"),
        op("sync", ANN, 8, 9, error=FAILED),
        read(BOB, 10, "2"),
    ],
    "the cache of a frozen host": [op("write", ANN, 0, 1, "1"), *synced(BOB, 2, "2"), read(ANN, 5, "1")],
    "silently lost": [op("write", ANN, 0, 1, "1"), op("close", ANN, 1, 2), read(BOB, 3, "")],
    "an append is lost": [*synced(ANN, 0, "1", "append"), op("whole", BOB, 3, 4)],
    "an append is there twice": [*synced(ANN, 0, "1", "append"), op("whole", BOB, 3, 4, "1", "1")],
    "a hole in a log": [*synced(ANN, 0, "1", "append"), op("whole", BOB, 3, 4, "", "1")],
    "appends out of order": [
        *synced(ANN, 0, "1", "append"),
        *synced(BOB, 3, "2", "append"),
        op("whole", ANN, 6, 7, "2", "1"),
    ],
    "a name comes back": [
        op("put", ANN, 0, 1, "7"),
        op("unlink", BOB, 2, 3),
        op("stat", ANN, 4, 5, ""),
        op("stat", BOB, 6, 7, "7"),
    ],
    "a name is seen late": [op("put", ANN, 0, 1, "7"), op("stat", BOB, 2, 3, "")],
    "a name is seen after another one": [
        op("put", ANN, 0, 1, "7"),
        op("put", ANN, 2, 3, "8"),
        op("stat", BOB, 4, 5, "7"),
    ],
    "two count to one number": [op("count", ANN, 0, 1, "0", "1"), op("count", BOB, 0.5, 2, "0", "1")],
    "a count is lost": [op("count", ANN, 0, 1, "4", "5"), op("count", BOB, 2, 3, "3", "4")],
}


@pytest.mark.parametrize("name", LEGAL)
def test_what_one_order_explains_is_accepted(name: str) -> None:
    assert wrongs(LEGAL[name]) == []


@pytest.mark.parametrize("name", WRONG)
def test_what_no_order_explains_is_refused(name: str) -> None:
    assert wrongs(WRONG[name]) != []


def history(rng: random.Random) -> list[Op]:
    """Make what a register does that is right: each operation happens at one moment within its span."""
    moments = sorted(rng.uniform(0, 20) for _ in range(rng.randrange(1, 30)))
    value, ops = "", []
    for number, moment in enumerate(moments):
        who = rng.choice((ANN, BOB, "eve"))
        begin, end = moment - rng.random() * 3, moment + rng.random() * 3
        if rng.random() < 0.5:
            ops.append(op("read", who, begin, end, value))
            continue
        is_failed = rng.random() < 0.2
        if not is_failed or rng.random() < 0.5:
            value = str(number + 1)
        ops.append(op("write", who, begin, end, str(number + 1), error=FAILED if is_failed else "", fd=number))
        ops.append(op("sync", who, end, end + 1, fd=number, error=FAILED if is_failed else ""))
    return ops


@pytest.mark.parametrize("seed", range(200))
def test_a_history_that_is_right_is_accepted(seed: int) -> None:
    assert wrongs(history(random.Random(seed))) == []


def can_be_ordered_by_all_orders(ops: list[Op]) -> bool:
    """Try each order."""
    for order in permutations(ops):
        value, latest, is_right = "", -NEVER, True
        for one in order:
            latest = max(latest, one.begin)
            is_right &= one.end >= latest and (one.kind == "write" or one.values == (value,))
            value = one.values[0] if one.kind == "write" else value
        if is_right:
            return True
    return not ops


@pytest.mark.parametrize("seed", range(300))
def test_the_spans_of_values_say_what_trying_all_orders_says(seed: int) -> None:
    rng = random.Random(seed)
    ops, values = [], [""]
    for number in range(rng.randrange(1, 6)):
        begin = rng.uniform(0, 6)
        kind = rng.choice(("read", "write"))
        values += [str(number + 1)] if kind == "write" else []
        value = values[-1] if kind == "write" else rng.choice(values)
        ops.append(op(kind, rng.choice((ANN, BOB)), begin, begin + rng.uniform(0.1, 3), value, fd=number))
    syncs = [op("sync", one.process, one.end, one.end, fd=one.fd) for one in ops if one.kind == "write"]
    assert (wrongs([*ops, *syncs]) == []) == can_be_ordered_by_all_orders(ops)
    steps = [
        Step(one.begin, one.end, frozenset({("*" if one.kind == "write" else one.values[0], one.values[0])}))
        for one in ops
    ]
    assert can_be_ordered(steps, "") == can_be_ordered_by_all_orders(ops)


def test_blocks_say_whose_they_are() -> None:
    block = encode("f/3/ann-1")
    assert (len(block), decode(block, "f", 3)) == (BLOCK, "f/3/ann-1")
    assert decode(bytes(BLOCK), "f", 3) == "" == decode(b"", "f", 3)
    assert decode(block, "f", 4) == decode(block, "g", 3) == FOREIGN
    assert decode(block[:CELL] + bytes(BLOCK - CELL), "f", 3) == "f/3/ann-1|"
    assert decode(encode("f/3/x")[: BLOCK // 2] + block[BLOCK // 2 :], "f", 3) == "f/3/x|f/3/ann-1"


def test_a_journal_outlives_its_process(tmp_path: Path) -> None:
    journal = Journal(tmp_path / "ann", "ann")
    journal.record("read", lambda: {"values": ["1", "2"]}, mount="a", file="f", fd=3, block=7)
    with pytest.raises(FileNotFoundError):
        journal.record("stat", lambda: (tmp_path / "none").stat(), mount="a", file="f", fd=0)

    def die() -> None:
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        journal.record("write", die, mount="a", file="f", fd=3, values=["9"])
    first, second, third = load([tmp_path / "ann"])
    assert (first.values, first.block, first.is_done) == (("1", "2"), 7, True)
    assert (second.error, third.error, third.end) == ("ENOENT", "no answer", NEVER)
