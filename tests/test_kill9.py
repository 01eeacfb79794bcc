"""The storm: `bpd` is killed at any moment, under load, again and again; what it acknowledged stays true."""

from __future__ import annotations

import os
import random
import secrets
import time
from pathlib import Path

from clients import need
from conftest import MakeFacility
from storm import Storm, check_catalogue

KILLS = int(os.environ.get("BP_KILLS", "5"))
SEED = int(os.environ.get("BP_SEED", secrets.randbelow(1 << 31)))

EXPECTED = (
    # A worker and its runs find the doors closed, for a moment.
    r"batch::.*(unreachable|retrying)",
    # A run that has just ended is given up by the head at the same time.
    r"cannot tell the shepherd to end .*No such file",
    # A file that is replaced or removed while it is written to tape.
    r"tape request failed .*object \d+ is not on disk1",
    # The kill met a drive in the middle of an append.
    r"tape image is damaged.*torn",
)


def test_acknowledged_is_kept(make_facility: MakeFacility, tmp_path: Path, shared: Path) -> None:
    need("xrdcp", "xrdfs")
    print(f"\nBP_SEED={SEED} BP_KILLS={KILLS}")
    rng = random.Random(SEED)
    facility = make_facility(volume_size="512MiB", volumes=8, slots=8, cpus=4)
    for pattern in EXPECTED:
        facility.expect_log(pattern)
    facility.keep_ports()
    facility.up()
    facility.bp("mkdir", "/storm")
    scratch = shared / "scratch"
    (scratch / "notes").mkdir(parents=True)
    storm = Storm(facility, scratch, SEED)
    storm.start()
    for kill in range(1, KILLS + 1):
        # Counted in commands, not in seconds: the same moments on a slow machine.
        storm.wait_acknowledged(rng.randrange(20, 80), deadline=120)
        print(f"{time.time():.3f} kill {kill}")
        facility.kill()
        facility.up()
        print(f"{time.time():.3f} up again")
        with storm.paused():
            storm.read_all(tmp_path / "back")
        print(f"kill {kill}: {len(storm.record.certain())} files and {len(storm.jobs)} jobs acknowledged")
    storm.stop()
    storm.check_jobs(deadline=120)
    storm.check_drained()
    storm.read_all(tmp_path / "back")
    # From tape, too.
    paths = [path for path in storm.record.certain() if facility.stat(path)["size"] > 0]
    for start in range(0, len(paths), 100):
        facility.bp("archive", "--wait", *paths[start : start + 100], deadline=120)
        facility.bp("evict", *paths[start : start + 100], check=False)
    storm.read_all(tmp_path / "back")
    storm.check_drained()
    facility.wait_removals()
    print(f"acknowledged commands: {storm.counts}")
    assert facility.status()["incarnation"] == KILLS + 1
    facility.down()
    check_catalogue(facility)
