"""The way to a ClickHouse server: clickhouse-connect over HTTP, with chdb behind it.

No server can be had here. What answers is ClickHouse's own engine in a process of its own, behind
as much of the HTTP interface as the driver uses; sessions, rights and clusters are not in it.
"""

from __future__ import annotations

import random
import subprocess
import sys

import pytest
from export_world import World

from penstock.errors import ServiceFailed
from penstock.export.clickhouse import ClickHouse
from penstock.export.clickhouse_places import Server
from penstock.export.run import export_tables

SERVER = """
import http.server, re, sys, tempfile, urllib.parse
from chdb.session import Session

folder, engine = sys.argv[1], Session(sys.argv[1] + "/data")

class Answering(http.server.BaseHTTPRequestHandler):
    def log_message(self, *_):
        pass

    def do_POST(self):
        asked = dict(urllib.parse.parse_qsl(urllib.parse.urlparse(self.path).query))
        body = self.rfile.read(int(self.headers.get("Content-Length") or 0))
        sql, data = asked.get("query", ""), body
        if not sql and b"FORMAT Parquet" in body:
            sql, data = (part for part in body.split(b"\\n", 1))
            sql = sql.decode()
        elif not sql:
            sql, data = body.decode(), b""
        form = "TabSeparated"
        if data:
            with tempfile.NamedTemporaryFile(dir=folder, suffix=".parquet", delete=False) as file:
                file.write(data)
            sql = re.sub("FORMAT Parquet", f"FROM INFILE '{file.name}' FORMAT Parquet", sql)
        found = re.search(r"FORMAT (Native|JSONEachRow|ArrowStream)\\s*$", sql)
        if found:
            sql, form = sql[:found.start()], found[1]
        try:
            answer, code = engine.query(sql, form).bytes(), 200
        except Exception as error:
            answer, code = str(error).encode(), 500
        self.send_response(code)
        self.send_header("Content-Length", str(len(answer)))
        self.end_headers()
        self.wfile.write(answer)

server = http.server.HTTPServer(("127.0.0.1", 0), Answering)
print(server.server_port, flush=True)
server.serve_forever()
"""


@pytest.fixture
def url(tmp_path):
    with subprocess.Popen(
        [sys.executable, "-c", SERVER, str(tmp_path)], stdout=subprocess.PIPE, text=True
    ) as process:
        yield f"http://127.0.0.1:{int(process.stdout.readline())}"
        process.kill()


def test_a_life_on_a_server(settings, url):
    world, dice, modes = World(settings, seed=6), random.Random(6), set()
    for what in ("append", "update", "compact", "promote", "rollback", "update", "schema"):
        world.promote("more") if what == "schema" else getattr(world, what)()
        target = ClickHouse(Server(url, "penstock", "secret"))
        (outcome,) = export_tables(
            settings, ["gold.sums"], target, verify=dice.random() < 0.5
        ).tables
        assert outcome.mode != "failed", outcome.reason
        assert outcome.rows == sum(world.bag().values())
        modes.add(outcome.mode)
    assert modes == {"full", "incremental", "unchanged"}
    (claim,) = ClickHouse(Server(url, "penstock", "secret")).claims().values()
    assert (claim.table, claim.delta_version) == ("gold.sums", world.version)


def test_a_server_that_is_not_there():
    with pytest.raises(ServiceFailed, match="does not answer"):
        Server("http://127.0.0.1:1", "penstock", "secret")
