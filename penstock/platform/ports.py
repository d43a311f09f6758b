"""Is a port free, and if not, who has it."""

from __future__ import annotations

import socket
from contextlib import closing, suppress
from typing import Any

import psutil

from penstock.errors import EnvironmentProblem
from penstock.settings import HOST

__all__ = ["holder_of", "is_free", "is_open", "require_free"]


def is_free(port: int) -> bool:
    """True when a server could listen on this loopback port now."""
    with closing(socket.socket(socket.AF_INET, socket.SOCK_STREAM)) as probe:
        # As servers do: a port in TIME_WAIT counts as free, one that is listened on does not.
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind((HOST, port))
        except OSError:
            return False
    return True


def is_open(port: int, host: str = HOST) -> bool:
    """True when somebody accepts connections on this port; on loopback it answers at once."""
    with closing(socket.socket(socket.AF_INET, socket.SOCK_STREAM)) as probe:
        probe.settimeout(1.0)
        try:
            return probe.connect_ex((host, port)) == 0
        except socket.gaierror:  # a container that is not there has no name either
            return False


def holder_of(port: int) -> str:
    """Who listens on a port, as well as we may know: "name (pid n)" or "another process"."""
    with suppress(psutil.Error, PermissionError):
        for connection in psutil.net_connections("tcp"):
            address: Any = connection.laddr  # psutil types it as perhaps empty; a listener's is not
            listening = connection.status == psutil.CONN_LISTEN and address.port == port
            if listening and connection.pid:
                return f"{psutil.Process(connection.pid).name()} (pid {connection.pid})"
    return "another process"


def require_free(port: int, title: str) -> None:
    """Refuse to start a service on a taken port, and say how to move the stack."""
    if not is_free(port):
        raise EnvironmentProblem(
            f"{title} needs port {port}, which {holder_of(port)} has.",
            remedy="Stop that, or move every port: `PENSTOCK_PORT_OFFSET=1000 penstock up`.",
        )
