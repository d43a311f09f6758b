"""The commands as typed: formats, footers, exit codes, pipes."""

from __future__ import annotations

import base64
import csv
import io
import json
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass
from datetime import UTC, datetime
from decimal import Decimal
from pathlib import Path

import pyarrow as pa
import pytest
from live_tables import LiveTable, stats

from penstock.cli import main
from penstock.settings import Settings

ROOT = Path(__file__).parents[3]
RUN = "from penstock.cli import main; main()"


@dataclass(frozen=True)
class Done:
    returncode: int
    stdout: str
    stderr: str


Penstock = Callable[..., Done]
Process = Callable[..., subprocess.Popen[str]]


@pytest.fixture
def surroundings(
    settings: Settings, tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The environment points at the test's stack."""
    (settings.project / "pyproject.toml").write_text("[tool.penstock]\n")
    monkeypatch.setenv("PENSTOCK_PROJECT", str(settings.project))
    monkeypatch.setenv("PENSTOCK_HOME", str(settings.home))
    monkeypatch.setenv("PYTHONPATH", str(ROOT))
    monkeypatch.delenv("PYTHONDONTWRITEBYTECODE", raising=False)
    monkeypatch.setenv("PYTHONPYCACHEPREFIX", str(tmp_path_factory.getbasetemp() / "pyc"))


@pytest.fixture
def penstock(
    surroundings: None, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> Penstock:
    """Type a command, in this process: start-up is paid once."""
    monkeypatch.setattr("penstock.cli.read.give_way", lambda niceness: None)

    def run(*args: str, stdin: str = "") -> Done:
        monkeypatch.setattr(sys, "argv", ["penstock", *args])
        monkeypatch.setattr(sys, "stdin", io.StringIO(stdin))
        try:
            main()
            code = 0
        except SystemExit as leaving:
            code = int(leaving.code or 0)
        return Done(code, *capsys.readouterr())

    return run


@pytest.fixture
def process(surroundings: None) -> Process:
    """Type a command in a process of its own, for what only shows there."""

    def start(*args: str, code: str = RUN) -> subprocess.Popen[str]:
        command = [sys.executable, "-c", code, *args]
        pipe = subprocess.PIPE
        return subprocess.Popen(command, stdout=pipe, stderr=pipe, text=True)

    return start


def test_a_table_on_stdout_and_a_footer_on_stderr(process: Process, gold: LiveTable) -> None:
    sql = "SELECT ticker, trades FROM gold.stats ORDER BY trades"
    with process("query", sql) as running:
        stdout, stderr = running.communicate(timeout=60)
    assert running.returncode == 0
    lines = [line.split() for line in stdout.splitlines() if line.strip()]
    assert lines[0] == ["ticker", "trades"]
    assert lines[2:] == [["AAPL", "3"], ["MSFT", "5"], ["NVDA", "8"]]
    assert "3 rows" in stderr
    assert "gold.stats version 2" in stderr
    assert "nanobind" not in stderr  # the engine complains at exit of what is left open


def test_a_piped_table_is_as_wide_as_its_data(penstock: Penstock, gold: LiveTable) -> None:
    done = penstock("query", "SELECT repeat('x', 300) AS wide, 'end' AS last")
    row = next(line for line in done.stdout.splitlines() if "xxx" in line)
    assert row.split() == ["x" * 300, "end"]


AWKWARD = pa.schema(
    [
        ("price", pa.decimal128(20, 4)),
        ("at_utc", pa.timestamp("us", "UTC")),
        ("local", pa.timestamp("us")),
        ("raw", pa.binary()),
        ("note", pa.string()),
        ("pair", pa.struct([("x", pa.int32())])),
        ("many", pa.list_(pa.int64())),
        ("ratio", pa.float64()),
    ]
)


@pytest.fixture
def awkward(live: Callable[[str], LiveTable]) -> LiveTable:
    table = live("silver.awkward").create(AWKWARD)
    full = {
        "price": Decimal("1234567890123456.7800"),
        "at_utc": datetime(2026, 1, 1, 12, 0, 0, 250000, tzinfo=UTC),
        "local": datetime(2026, 1, 1, 12),
        "raw": b"\x00\xffraw",
        "note": 'say "hi",\nthen go',
        "pair": {"x": 1},
        "many": [1, 2],
        "ratio": float("nan"),
    }
    empty = dict.fromkeys(AWKWARD.names, None)
    table.append(pa.Table.from_pylist([full, {**empty, "note": ""}], AWKWARD))
    return table


def test_json_keeps_every_type(penstock: Penstock, awkward: LiveTable) -> None:
    done = penstock("query", "--json", "SELECT * FROM silver.awkward ORDER BY price NULLS LAST")
    assert done.returncode == 0, done.stderr
    first, second = json.loads(done.stdout)
    assert first == {
        "price": "1234567890123456.7800",
        "at_utc": "2026-01-01T12:00:00.250000Z",
        "local": "2026-01-01T12:00:00",
        "raw": base64.b64encode(b"\x00\xffraw").decode(),
        "note": 'say "hi",\nthen go',
        "pair": {"x": 1},
        "many": [1, 2],
        "ratio": "NaN",
    }
    assert second == {**dict.fromkeys(AWKWARD.names, None), "note": ""}
    assert done.stderr == ""


def test_csv_keeps_every_type(penstock: Penstock, awkward: LiveTable) -> None:
    done = penstock("query", "--csv", "SELECT * FROM silver.awkward ORDER BY price NULLS LAST")
    header, first, second = csv.reader(io.StringIO(done.stdout, newline=""))
    assert header == AWKWARD.names
    assert first == [
        "1234567890123456.7800",
        "2026-01-01T12:00:00.250000Z",
        "2026-01-01T12:00:00",
        base64.b64encode(b"\x00\xffraw").decode(),
        'say "hi",\nthen go',
        '{"x": 1}',
        "[1, 2]",
        "NaN",
    ]
    assert second == [""] * len(AWKWARD)
    assert done.stdout.endswith(',,,,"",,,\n')  # NULL is nothing, an empty text is ""


def test_no_rows_is_still_valid(penstock: Penstock, gold: LiveTable) -> None:
    nothing = "SELECT ticker FROM gold.stats WHERE false"
    assert json.loads(penstock("query", "--json", nothing).stdout) == []
    assert penstock("query", "--csv", nothing).stdout == "ticker\n"
    assert "0 rows" in penstock("query", nothing).stderr


def test_the_query_may_come_from_stdin_or_a_file(
    penstock: Penstock, gold: LiveTable, tmp_path: Path
) -> None:
    sql = "SELECT count(*) AS n FROM gold.stats"
    script = tmp_path / "q.sql"
    script.write_text(sql)
    assert json.loads(penstock("query", "--json", "-", stdin=sql).stdout) == [{"n": 3}]
    assert json.loads(penstock("query", "--json", "--file", str(script)).stdout) == [{"n": 3}]


def test_exactly_one_query_is_needed(penstock: Penstock, tmp_path: Path) -> None:
    script = tmp_path / "q.sql"
    script.write_text("SELECT 1")
    assert penstock("query").returncode == 2
    assert penstock("query", "SELECT 1", "--file", str(script)).returncode == 2


def test_rows_are_cut_with_a_note(penstock: Penstock, gold: LiveTable) -> None:
    sql = "SELECT * FROM range(1500)"
    table = penstock("query", sql)
    assert "1,000 rows" in table.stderr
    assert "--limit-rows 0" in table.stderr
    assert "999" in table.stdout.split()
    assert "1000" not in table.stdout.split()
    assert len(json.loads(penstock("query", "--json", sql).stdout)) == 1500  # a pipe gets all
    cut = penstock("query", "--csv", "--limit-rows", "3", sql)
    assert cut.stdout.split() == ["range", "0", "1", "2"]
    assert "cut after 3 rows" in cut.stderr
    whole = penstock("query", "--limit-rows", "0", sql)
    assert "1,500 rows" in whole.stderr
    assert "cut" not in whole.stderr


@pytest.mark.parametrize(
    ("args", "code", "said"),
    [
        (["SELECT * FROM gold.statz"], 2, "Did you mean gold.stats?"),
        (["SELECT nope FROM gold.stats"], 2, "nope"),
        (["COPY gold.stats TO '/tmp/x'"], 4, "COPY is not allowed"),
        (["FROM '/etc/passwd'"], 4, "only live tables"),
        (
            ["SELECT count(*) FROM range(10000000) a, range(10000000) b", "--timeout", "0.5"],
            4,
            "cap",
        ),
        (["SELECT 1", "--memory", "lots"], 2, "memory size"),
    ],
)
def test_errors_are_a_sentence_a_remedy_and_a_code(
    penstock: Penstock, gold: LiveTable, args: list[str], code: int, said: str
) -> None:
    done = penstock("query", *args)
    assert done.returncode == code
    assert said in done.stderr
    assert done.stdout == ""
    assert len(done.stderr.strip().splitlines()) >= 2


def test_an_engine_that_ignores_its_caps_is_ended(process: Process, gold: LiveTable) -> None:
    """Folding one huge list neither stops on an interrupt nor counts as engine memory."""
    started = time.monotonic()
    with process("query", "SELECT list_sum(range(3000000000))", "--memory", "64MB") as running:
        stdout, stderr = running.communicate(timeout=60)
    assert running.returncode == 4
    assert stdout == ""
    assert "memory" in stderr
    assert "Traceback" not in stderr
    assert time.monotonic() - started < 30


def test_a_long_query_prints_nothing_but_rows(process: Process, gold: LiveTable) -> None:
    """DuckDB draws a progress bar on stdout after two seconds unless told otherwise."""
    sql = "SELECT sleep_ms(2500) n FROM range(1) UNION ALL SELECT count(*) FROM range(3000000000)"
    with process("query", "--json", sql) as running:
        stdout, _ = running.communicate(timeout=60)
    assert json.loads(stdout) == [{"n": None}, {"n": 3_000_000_000}]


def test_ctrl_c_stops_a_query(process: Process, gold: LiveTable) -> None:
    sql = "SELECT count(*) FROM range(10000000) a, range(10000000) b"
    with process("query", sql, code=f"print('up', flush=True)\n{RUN}") as running:
        assert running.stdout is not None
        assert running.stdout.readline() == "up\n"
        time.sleep(2)
        running.send_signal(signal.SIGINT)
        _, stderr = running.communicate(timeout=20)
    assert running.returncode == 130
    assert "Traceback" not in stderr


def test_a_plan_is_shown_as_it_is(penstock: Penstock, gold: LiveTable) -> None:
    done = penstock("query", "EXPLAIN SELECT ticker FROM gold.stats WHERE trades > 4")
    assert "trades > 4" in done.stdout
    assert "explain_key" not in done.stdout


def test_small_queries_import_nothing_heavy(process: Process, gold: LiveTable) -> None:
    """Start-up is the feature: pyspark, pandas and pyarrow each cost more than the query."""
    code = (
        "import sys, atexit\n"
        "heavy = ['pyspark', 'pandas', 'numpy', 'pyarrow', 'obstore', 'penstock.model']\n"
        "atexit.register(lambda: print([m for m in heavy if m in sys.modules], file=sys.stderr))\n"
        + RUN
    )
    with process("query", "SELECT * FROM gold.stats", code=code) as running:
        _, stderr = running.communicate(timeout=60)
    assert running.returncode == 0, stderr
    assert stderr.splitlines()[-1] == "[]"


def test_a_query_gives_way_to_the_streams(process: Process, gold: LiveTable) -> None:
    code = f"import atexit, os\natexit.register(lambda: print(os.nice(0)))\n{RUN}"
    with process("query", "--csv", "SELECT 1 AS one", code=code) as running:
        stdout, _ = running.communicate(timeout=60)
    assert int(stdout.split()[-1]) >= 5


def test_a_closed_pipe_ends_quietly(process: Process, gold: LiveTable) -> None:
    with process("query", "--csv", "SELECT * FROM range(1000000)") as running:
        assert running.stdout is not None
        assert running.stderr is not None
        assert running.stdout.readline() == "range\n"
        running.stdout.close()
        said = running.stderr.read()
        assert running.wait(timeout=30) == 0
    assert said == ""


# --- tail ---------------------------------------------------------------------------------
def test_tail_prints_changes_as_lines(penstock: Penstock, gold: LiveTable) -> None:
    done = penstock("tail", "gold.stats", "--from-version", "1", "--rows", "3", "--json")
    assert done.returncode == 0
    lines = [json.loads(line) for line in done.stdout.splitlines()]
    assert [line["ticker"] for line in lines] == ["AAPL", "MSFT", "NVDA"]
    assert lines[2]["_change_type"] == "insert"
    assert lines[2]["_commit_version"] == 2
    assert lines[2]["_commit_timestamp"] == "2026-01-01T00:00:02Z"


def test_tail_as_text(penstock: Penstock, gold: LiveTable) -> None:
    done = penstock("tail", "gold.stats", "--from-version", "2", "--rows", "1")
    assert done.stdout == "+ 2  ticker=NVDA  trades=8  price=30.25\n"


def test_tail_of_an_unknown_table(penstock: Penstock, gold: LiveTable) -> None:
    done = penstock("tail", "gold.statz")
    assert done.returncode == 2
    assert "gold.stats" in done.stderr


def test_tail_ends_on_ctrl_c_without_a_trace(process: Process, gold: LiveTable) -> None:
    with process("tail", "gold.stats", "--from-version", "2") as running:
        assert running.stdout is not None
        assert running.stderr is not None
        assert "NVDA" in running.stdout.readline()
        gold.append(stats(("TSLA", 1, 1.0)))
        assert "TSLA" in running.stdout.readline()  # it follows, line by line
        running.send_signal(signal.SIGINT)
        said = running.stderr.read()
        assert running.wait(timeout=30) == 0
    assert "Traceback" not in said
    assert "nanobind" not in said


@pytest.mark.parametrize("command", ["query", "tail"])
def test_help_shows_examples(penstock: Penstock, command: str) -> None:
    done = penstock(command, "--help")
    assert done.returncode == 0
    assert f"penstock {command} " in done.stdout
