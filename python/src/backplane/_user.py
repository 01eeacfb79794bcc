"""Who runs this process."""

from __future__ import annotations

import os
import pwd


def this_user() -> str:
    """Name the user of this process as the user database does.

    The environment is not asked: daemons on this host take a local caller for whom the kernel names, and refuse
    another name.

    Returns
    -------
    str
        The name, ``uidNUMBER`` for a user without one.
    """
    uid = os.geteuid()
    try:
        return pwd.getpwuid(uid).pw_name
    except KeyError:
        return f"uid{uid}"
