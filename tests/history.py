"""What processes did to files that several hosts share, and whether one order of it explains all that they saw.

Each process writes a journal: a line when an operation begins, and one when it ends. The checker reads the journals of
all and knows nothing else; it shares no code with what it checks. `wrongs` says what no order explains:

- Blocks of a file are registers (`Blocks`): each write has a value of its own, so that a read names its write.
- Names are registers, too, of the numbers of files (`names`).
- A log that several processes append to has each record once (`log`), a counter under a lock loses nothing (`counter`).

A write that failed or had no answer may have been done. One that had an answer may be lost only if the next `fsync` or
`close` of its descriptor fails or never comes; until then its own host may see it. It comes late only as long as
no other host has done something with the file after it.
"""

from __future__ import annotations

import errno
import json
import os
import time
from collections import defaultdict
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from itertools import pairwise, permutations
from pathlib import Path
from typing import Any

from linear import Step, can_be_ordered

Json = dict[str, Any]

BLOCK = 4096
"""Bytes of a block: what a disk writes whole."""
CELL = 64
"""Bytes that name the value of a block, again and again, so that a mixture of two is seen."""
NEVER = float("inf")
FOREIGN = "foreign bytes"
"""Stands for what nobody wrote there."""


@dataclass(frozen=True)
class Op:
    """One operation of one process."""

    kind: str
    """`write`, `read`, `sync`, `close`, `append`, `whole`, `put`, `unlink`, `stat`, `count`."""
    process: str
    mount: str
    """Which mount served it; one that was mounted again has another name."""
    file: str
    fd: int
    """Number of the open that it belongs to, of its process."""
    begin: float
    end: float = NEVER
    error: str = "no answer"
    """Name of the error number; empty if it was done."""
    block: int = 0
    values: tuple[str, ...] = ()
    """Of each block, what was written or read; empty for what was never written."""

    @property
    def is_done(self) -> bool:
        """Whether it was answered that it was done."""
        return not self.error

    def __str__(self) -> str:
        span = f"{self.begin:.3f}..{self.end:.3f}"
        outcome = self.error or "done"
        return f"{span} {self.process} on {self.mount}: {self.kind} {self.file}[{self.block}] {self.values} {outcome}"


# Journals


class Journal:
    """What one process does; it outlives the process."""

    def __init__(self, path: Path, process: str) -> None:
        self.process = process
        self._fd = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND)
        self._count = 0

    def record(self, kind: str, work: Callable[[], Any], **fields: Any) -> Any:
        """Do something and write down when it began and how it ended; what fails fails for the caller, too.

        What `work` yields may be a dictionary: fields that are known only then.
        """
        self._count += 1
        number = self._count
        self._line({"n": number, "kind": kind, "process": self.process, "begin": time.monotonic(), **fields})
        try:
            outcome = work()
        except OSError as failure:
            self._line({"n": number, "end": time.monotonic(), "error": name_of(failure)})
            raise
        more = outcome if isinstance(outcome, dict) else {}
        self._line({"n": number, "end": time.monotonic(), "error": "", **more})
        return outcome

    def _line(self, fields: Json) -> None:
        os.write(self._fd, json.dumps(fields).encode() + b"\n")


def name_of(failure: OSError) -> str:
    """Write the number of a failure."""
    return errno.errorcode.get(failure.errno or 0, str(failure))


def load(journals: Iterable[Path]) -> list[Op]:
    """Read what all processes did."""
    ops = []
    for journal in journals:
        begun: dict[int, Json] = {}
        for line in journal.read_text().splitlines():
            fields = json.loads(line)
            begun.setdefault(fields.pop("n"), {}).update(fields)
        ops += [Op(**{**fields, "values": tuple(fields.get("values", ()))}) for fields in begun.values()]
    return sorted(ops, key=lambda op: op.begin)


# Blocks on disk


def encode(value: str) -> bytes:
    """Make the block that has a value."""
    assert len(value) < CELL, value
    return value.encode().ljust(CELL, b".") * (BLOCK // CELL)


def decode(data: bytes, file: str, block: int) -> str:
    """Tell which value a block has; `a|b` if it has some of each."""
    found: dict[str, None] = {}
    for at in range(0, len(data), CELL):
        cell = data[at : at + CELL]
        text = cell.rstrip(b".").decode(errors="replace")
        is_ours = len(cell) == CELL and text.startswith(f"{file}/{block}/")
        found[text if is_ours else "" if not any(cell) else FOREIGN] = None
    return "|".join(found)


# The checker


@dataclass
class Write:
    """A value of a block, with what is known of when it came."""

    op: Op
    value: str
    bound: float
    """It came before this, or never."""
    is_certain: bool
    """It came, and stays."""
    reads: list[Op] = field(default_factory=list)

    def is_before(self, other: Write) -> bool:
        """Tell whether it cannot come after another one: whoever wrote that had its grant ended."""
        is_ended = other.op.begin > self.op.end and (other.op.mount != self.op.mount or not self.op.is_done)
        return is_ended and not self.is_certain


def wrongs(ops: Sequence[Op]) -> list[str]:
    """Say what no order of the operations explains."""
    by_file: dict[str, list[Op]] = defaultdict(list)
    for op in ops:
        by_file[op.file].append(op)
    found = []
    for file, those in by_file.items():
        kinds = {op.kind for op in those}
        if kinds & {"append", "whole"}:
            found += log(those)
        elif kinds & {"put", "unlink", "stat"}:
            found += names(those)
        elif "count" in kinds:
            found += counter(those)
        else:
            found += Blocks(those).wrongs()
        assert len(kinds & {"write", "append", "put", "count"}) <= 1, f"{file} is used in two ways"
    return found


def fates(ops: Sequence[Op], kind: str) -> dict[Op, Op | None]:
    """Find, for each write, the first `fsync` or `close` of its descriptor after it; none if there is none."""
    syncs: dict[tuple[str, int], list[Op]] = defaultdict(list)
    for op in ops:
        if op.kind in ("sync", "close"):
            syncs[op.process, op.fd].append(op)
    return {
        op: next((sync for sync in syncs[op.process, op.fd] if sync.begin >= op.end), None)
        for op in ops
        if op.kind == kind
    }


class Blocks:
    """The blocks of one file, each a register.

    With a value of its own for each write, an order exists if and only if the spans of values fit (Gibbons and Korach,
    *Testing shared memories*, 1997): a value is certainly there from the first end of what wrote or read it until the
    last begin of that. Two values cannot be certainly there at one time; nor can a value come and go while another one
    is certainly there.
    """

    def __init__(self, ops: Sequence[Op]) -> None:
        self.ops = [op for op in ops if op.kind in ("write", "read")]
        self.done = sorted((op for op in self.ops if op.is_done), key=lambda op: op.begin)
        self.fates = fates(ops, "write")

    def wrongs(self) -> list[str]:
        """Check each block by itself."""
        blocks: dict[int, list[tuple[Op, str]]] = defaultdict(list)
        for op in self.ops:
            for number, value in enumerate(op.values, op.block):
                blocks[number].append((op, value))
        return [wrong for number in sorted(blocks) for wrong in self._block(blocks[number])]

    def _write(self, op: Op, value: str) -> Write:
        sync = self.fates[op]
        if op.is_done and sync is not None and sync.is_done:
            return Write(op, value, op.end, is_certain=True)
        if op.is_done:
            # It was on its own host only, or on its way. Whoever else had the file then has ended that.
            others = (other.end for other in self.done if other.begin > op.end and other.mount != op.mount)
            return Write(op, value, min(others, default=NEVER), is_certain=False)
        # On its way until somebody had the file after it failed.
        later = (other.end for other in self.done if other.begin > op.end)
        return Write(op, value, min(later, default=NEVER), is_certain=False)

    def _block(self, uses: list[tuple[Op, str]]) -> list[str]:
        writes = {value: self._write(op, value) for op, value in uses if op.kind == "write"}
        nobody = Op("write", "nobody", "", uses[0][0].file, 0, -NEVER, -NEVER, "")
        writes[""] = Write(nobody, "", -NEVER, is_certain=True)
        found = []
        for op, value in uses:
            if op.kind == "read" and op.is_done:
                found += self._read(op, value, writes)
        there = [write for write in writes.values() if write.is_certain or write.reads]
        found += [_pair("a write came after a later one", *pair) for pair in permutations(there, 2) if is_stale(*pair)]
        return found + conflicts(there)

    def _read(self, op: Op, value: str, writes: dict[str, Write]) -> list[str]:
        """Add a read to the value that it saw."""
        parts = value.split("|")
        if unknown := [part for part in parts if part not in writes or writes[part].op.begin > op.end]:
            return [f"nobody had written {unknown} when it was read: {op}"]
        if len(parts) > 1:
            # A write that was not done when it was read, or may not have been done at all, may be there in part.
            settled = [part for part in parts if writes[part].is_certain and writes[part].op.end < op.begin]
            return [f"parts of {settled} were read at once: {op}"] if len(settled) > 1 else []
        write = writes[value]
        is_own = write.op.mount == op.mount and not write.is_certain and write.op.is_done
        if not (is_own and op.begin <= write.bound):
            write.reads.append(op)
        return []


def is_stale(write: Write, newer: Write) -> bool:
    """Tell whether a value was read though a newer one had come."""
    is_over = newer.is_certain and write.is_before(newer)
    return is_over and any(read.begin > newer.op.end for read in write.reads)


def conflicts(writes: Sequence[Write]) -> list[str]:
    """Find pairs of values that exclude each other."""
    forward, backward = [], []
    for write in writes:
        first = min([write.bound, *(read.end for read in write.reads)])
        last = max([write.op.begin, *(read.begin for read in write.reads)])
        if first < last:
            forward.append((first, last, write))
        else:
            backward.append((last, first, write))
    forward.sort(key=lambda span: span[:2])
    found = [
        _pair("two values were there at once", one[2], two[2]) for one, two in pairwise(forward) if two[0] < one[1]
    ]
    for begin, end, write in backward:
        found += [
            _pair("a value came and went while another one was there", other, write)
            for start, stop, other in forward
            if start < begin and end < stop
        ]
    return found


def _pair(what: str, one: Write, two: Write) -> str:
    lines = [what]
    for write in (one, two):
        lines.append(f"  {write.op}")
        reads = sorted(write.reads, key=lambda op: op.begin)
        lines += [f"    read {op}" for op in dict.fromkeys([*reads[:2], *reads[-2:]])]
    return "\n".join(lines)


def names(ops: Sequence[Op]) -> list[str]:
    """Check one name: its states are the number of a file, or nothing."""
    steps = []
    for op in ops:
        (number,) = op.values or ("",)
        is_known = op.is_done or (op.kind != "put" and op.error == "ENOENT")
        if op.kind == "stat" and is_known:
            steps.append(Step(op.begin, op.end, frozenset({(number, number)})))
        elif op.kind == "put":
            steps.append(Step(op.begin, op.end if op.is_done else NEVER, frozenset({("*", number)}), op.is_done))
        elif op.kind == "unlink":
            # One whose first answer was lost says that the name is not there.
            wanted = frozenset({("+", "")}) if op.is_done else frozenset({("*", "")})
            steps.append(Step(op.begin, op.end if is_known else NEVER, wanted, is_known))
    if can_be_ordered(steps, ""):
        return []
    return ["no order explains what was seen of a name:\n" + "\n".join(f"  {op}" for op in ops)]


def log(ops: Sequence[Op]) -> list[str]:
    """Check a file that processes append records to: each once, none lost, none out of order."""
    appended = {value: (op, sync) for op, sync in fates(ops, "append").items() for value in op.values}
    found = []
    for read in (op for op in ops if op.kind == "whole" and op.is_done):
        places = {value: place for place, value in enumerate(read.values)}
        if len(places) != len(read.values):
            found.append(f"a record is there twice: {read}")
        if unknown := [value for value in places if value not in appended or appended[value][0].begin > read.end]:
            found.append(f"nobody had appended {unknown}: {read}")
        certain = [op for op, sync in appended.values() if op.is_done and sync and sync.is_done and op.end < read.begin]
        if lost := [op for op in certain if op.values[0] not in places]:
            found.append(f"records are lost, as {lost[0]}: {read}")
        there = sorted((op for op in certain if op.values[0] in places), key=lambda op: places[op.values[0]])
        latest = -NEVER
        for op in there:
            if op.end < latest:
                found.append(f"records are out of order at {op}: {read}")
            latest = max(latest, op.begin)
    return found


def counter(ops: Sequence[Op]) -> list[str]:
    """Check a number that processes count up under a lock: `values` are what was read and what was synced."""
    done = [op for op in ops if op.kind == "count" and op.is_done]
    by_number: dict[str, Op] = {}
    found = []
    for op in done:
        if (other := by_number.setdefault(op.values[1], op)) is not op:
            found.append(f"two counted to the same number:\n  {other}\n  {op}")
        before = max((int(other.values[1]) for other in done if other.end < op.begin), default=0)
        if int(op.values[0]) < before:
            found.append(f"a count to {before} was lost: {op}")
    return found
