"""Real servers that letters are sent to: SMTP and HTTP on loopback, both remembering."""

from __future__ import annotations

import base64
import http.server
import json
import socketserver
import ssl
import threading
from email import message_from_bytes, policy
from email.message import EmailMessage
from typing import Any


class SmtpSink:
    """The little of RFC 5321 that a client needs; `deaf` refuses what it is given.

    Args:
        tls: offered as STARTTLS, or spoken from the start.
        login: the user and the password without which no mail is taken.
    """

    def __init__(
        self,
        tls: ssl.SSLContext | None = None,
        *,
        from_start: bool = False,
        login: tuple[str, str] | None = None,
    ) -> None:
        self.mails: list[tuple[list[str], EmailMessage]] = []
        self.heard: list[tuple[bytes, bool]] = []  # each verb, and whether it came over TLS
        self.deaf = False
        self.parting = b"221 bye\r\n"
        sink = self

        class Talk(socketserver.StreamRequestHandler):
            known = login is None

            def handle(self) -> None:
                try:
                    if from_start:
                        self._secure()
                    self._talk()
                except OSError:  # a client that does not like our certificate just goes
                    pass

            def _secure(self) -> None:
                assert tls is not None
                self.request = tls.wrap_socket(self.request, server_side=True)
                self.setup()

            def _offered(self) -> bytes:
                secured = isinstance(self.request, ssl.SSLSocket)
                offer = b"250-sink\r\n" + (b"250-AUTH PLAIN\r\n" if login else b"")
                return offer + (b"250-STARTTLS\r\n" if tls and not secured else b"")

            def _is_login(self, line: bytes) -> bool:
                assert login is not None
                given = base64.b64decode(line.split()[2]).decode().split("\0")
                return given == ["", *login]

            def _talk(self) -> None:
                self.wfile.write(b"220 sink\r\n")
                to: list[str] = []
                while line := self.rfile.readline():
                    verb = line.split(b":")[0].strip().upper()
                    secured = isinstance(self.request, ssl.SSLSocket)
                    sink.heard.append((verb.split()[0], secured))
                    if verb.startswith((b"EHLO", b"HELO")):
                        self.wfile.write(self._offered() + b"250 HELP\r\n")
                    elif verb == b"STARTTLS":
                        self.wfile.write(b"220 go on\r\n")
                        self._secure()
                    elif verb.startswith(b"AUTH"):
                        self.known = self._is_login(line)
                        told = b"235 come in" if self.known else b"535 not with " + line.split()[2]
                        self.wfile.write(told + b"\r\n")
                    elif verb == b"MAIL FROM" and not self.known:
                        self.wfile.write(b"530 who are you\r\n")
                    elif verb == b"RCPT TO":
                        to.append(line.split(b"<")[1].split(b">")[0].decode())
                        self.wfile.write(b"250 ok\r\n")
                    elif verb == b"DATA":
                        self.wfile.write(b"354 go on\r\n")
                        self._take(to)
                        to = []
                    elif verb == b"QUIT":
                        self.wfile.write(sink.parting)
                        return
                    else:
                        self.wfile.write(b"250 ok\r\n")

            def _take(self, to: list[str]) -> None:
                body = b""
                while (line := self.rfile.readline()) != b".\r\n":
                    body += line[1:] if line.startswith(b"..") else line
                if sink.deaf:
                    self.wfile.write(b"451 later\r\n")
                    return
                mail = message_from_bytes(body, policy=policy.default)
                sink.mails.append((to, mail))  # type: ignore[arg-type]
                self.wfile.write(b"250 taken\r\n")

        self._server = socketserver.ThreadingTCPServer(("127.0.0.1", 0), Talk)
        self.address = f"127.0.0.1:{self._server.server_address[1]}"
        threading.Thread(target=self._server.serve_forever, daemon=True).start()

    def close(self) -> None:
        self._server.shutdown()
        self._server.server_close()


class HookSink:
    """A webhook; answers with `status`."""

    def __init__(self) -> None:
        self.posts: list[tuple[str, dict[str, Any]]] = []
        self.status = 204
        sink = self

        class Talk(http.server.BaseHTTPRequestHandler):
            def do_POST(self) -> None:
                body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
                if sink.status < 300:
                    sink.posts.append((self.headers["Idempotency-Key"], body))
                self.send_response(sink.status)
                self.end_headers()

            def log_message(self, *_: Any) -> None:
                pass

        self._server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Talk)
        self.address = f"http://127.0.0.1:{self._server.server_address[1]}/hook"
        threading.Thread(target=self._server.serve_forever, daemon=True).start()

    def close(self) -> None:
        self._server.shutdown()
        self._server.server_close()
