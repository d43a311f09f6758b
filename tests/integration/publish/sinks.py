"""Real servers that letters are sent to: SMTP and HTTP on loopback, both remembering."""

from __future__ import annotations

import http.server
import json
import socketserver
import threading
from email import message_from_bytes, policy
from email.message import EmailMessage
from typing import Any


class SmtpSink:
    """The little of RFC 5321 that a client needs; `deaf` refuses what it is given."""

    def __init__(self) -> None:
        self.mails: list[tuple[list[str], EmailMessage]] = []
        self.deaf = False
        self.parting = b"221 bye\r\n"
        sink = self

        class Talk(socketserver.StreamRequestHandler):
            def handle(self) -> None:
                self.wfile.write(b"220 sink\r\n")
                to: list[str] = []
                while line := self.rfile.readline():
                    verb = line.split(b":")[0].strip().upper()
                    if verb.startswith((b"EHLO", b"HELO")):
                        self.wfile.write(b"250 sink\r\n")
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
