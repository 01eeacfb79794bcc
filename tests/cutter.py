"""A wire that breaks at a chosen request: what a client does then is what a restart or a bad network makes it do."""

from __future__ import annotations

import socket
import struct
import threading
import urllib.parse
from contextlib import suppress
from types import TracebackType
from typing import Self

import frames


class Cutter:
    """Stands between clients and a `root://` door, and cuts the first connection that makes a certain request.

    Parameters
    ----------
    root
        The door.
    code
        The request that is not let through.
    """

    def __init__(self, root: str, code: int) -> None:
        where = urllib.parse.urlsplit(root)
        self._door = (where.hostname, where.port)
        self._code = code
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.root = f"root://127.0.0.1:{self._listener.getsockname()[1]}"
        self.has_cut = False

    def __enter__(self) -> Self:
        threading.Thread(target=self._accept, daemon=True).start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._listener.close()

    def _accept(self) -> None:
        with suppress(OSError):
            while True:
                client, _ = self._listener.accept()
                threading.Thread(target=self._join, args=(client,), daemon=True).start()

    def _join(self, client: socket.socket) -> None:
        with client, socket.create_connection(self._door) as door:
            threading.Thread(target=self._answers, args=(door, client), daemon=True).start()
            with suppress(OSError, EOFError):
                door.sendall(_receive(client, len(frames.HANDSHAKE)))
                while True:
                    head = _receive(client, 24)
                    code, length = struct.unpack(">H", head[2:4])[0], struct.unpack(">i", head[20:24])[0]
                    if code == self._code and not self.has_cut:
                        self.has_cut = True
                        break
                    door.sendall(head + _receive(client, length))
            for end in (client, door):
                with suppress(OSError):
                    end.shutdown(socket.SHUT_RDWR)

    @staticmethod
    def _answers(door: socket.socket, client: socket.socket) -> None:
        with suppress(OSError):
            while data := door.recv(1 << 20):
                client.sendall(data)


def _receive(source: socket.socket, count: int) -> bytes:
    data = bytearray()
    while len(data) < count:
        more = source.recv(count - len(data))
        if not more:
            raise EOFError
        data += more
    return bytes(data)
