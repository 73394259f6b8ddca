"""Messages between a sandbox and its workers: their length, bytes, and open files beside them.

Standard library only, and little of it: the process that forks the programs loads this.
"""

from __future__ import annotations

import _socket  # socket itself imports so much that every fork takes half as long again
import errno
import json
import os
import struct
from typing import Any

Message = dict[str, Any]
MOST_FDS = 16  # on their way at once
CLOSE_ON_EXEC = getattr(_socket, "MSG_CMSG_CLOEXEC", 0)


class Wire:
    """One end of a socket, with what has arrived there and was not asked for yet."""

    def __init__(self, channel: _socket.socket) -> None:
        self.channel = channel
        self.bytes = bytearray()
        self.fds: list[int] = []

    def send(self, message: Message, *fds: int) -> None:
        """Send a message, and open files with it; raises OSError where nobody is there."""
        self.send_bytes(json.dumps(message).encode(), *fds)

    def send_bytes(self, data: bytes, *fds: int) -> None:
        """As :meth:`send`, for bytes."""
        whole = struct.pack("!IB", len(data), len(fds)) + data
        if fds:
            rights = struct.pack(f"{len(fds)}i", *fds)
            sent = self.channel.sendmsg([whole], [(_socket.SOL_SOCKET, _socket.SCM_RIGHTS, rights)])
            whole = whole[sent:]
        if whole:
            self.channel.sendall(whole)

    def receive(self) -> tuple[Message, list[int]] | None:
        """The next message and the open files that came with it, or None at the end."""
        told = self.receive_bytes()
        return None if told is None else (json.loads(told[0]), told[1])

    def receive_bytes(self) -> tuple[bytes, list[int]] | None:
        """As :meth:`receive`, for bytes."""
        while not self.waiting():
            data, ancillary, flags, _ = self.channel.recvmsg(
                1 << 16, _socket.CMSG_SPACE(MOST_FDS * 4), CLOSE_ON_EXEC
            )
            if not data:
                return None
            self.bytes += data
            for *_, rights in ancillary:
                self.fds += struct.unpack(f"{len(rights) // 4}i", rights)
            if flags & _socket.MSG_CTRUNC:  # this process may open no more
                raise OSError(errno.EMFILE, os.strerror(errno.EMFILE))
        size, n_fds = struct.unpack_from("!IB", self.bytes)
        data, fds = bytes(self.bytes[5 : 5 + size]), self.fds[:n_fds]
        del self.bytes[: 5 + size], self.fds[:n_fds]
        return data, fds

    def close(self) -> None:
        """Close the socket and the files that came with what was not asked for."""
        self.channel.close()
        while self.fds:
            os.close(self.fds.pop())

    def waiting(self) -> bool:
        """Whether a whole message has arrived."""
        return (
            len(self.bytes) >= 5 and len(self.bytes) >= 5 + struct.unpack_from("!I", self.bytes)[0]
        )
