"""`xrdcp` as the newer client of the field is: the copy process of its Python wheel, which brings no programs.

python xrdcp6.py [-s] [-f] [--tpc none|first|only] [--cksum TYPE] SOURCE TARGET
"""

from __future__ import annotations

import argparse
import sys

from XRootD.client import CopyProcess


def main() -> int:
    """Make one copy as the arguments say; the exit code is 0 only if it was made."""
    parser = argparse.ArgumentParser(prog="xrdcp6")
    parser.add_argument("-s", action="store_true", help="no progress bar; there is none")
    parser.add_argument("-f", action="store_true", help="replace the target if it exists")
    parser.add_argument("--tpc", choices=["none", "first", "only"], default="none")
    parser.add_argument("--cksum", default="", help="compare this checksum of both ends")
    parser.add_argument("source")
    parser.add_argument("target")
    arguments = parser.parse_args()
    copy = CopyProcess()
    copy.add_job(
        arguments.source,
        arguments.target,
        force=arguments.f,
        thirdparty=arguments.tpc,
        checksummode="end2end" if arguments.cksum else "none",
        checksumtype=arguments.cksum,
    )
    status = copy.prepare()
    if status.ok:
        status, _ = copy.run()
    if not status.ok:
        print(status.message, file=sys.stderr)
    return 0 if status.ok else 1


if __name__ == "__main__":
    sys.exit(main())
