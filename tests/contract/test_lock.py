"""The lock: every package with hashes, no index address, the pins that matter."""

from __future__ import annotations

import re
from pathlib import Path

PROJECT = Path(__file__).resolve().parents[2]
PINS = (
    "pyspark==4.1.3",
    "delta-spark==4.4.0",
    "deltalake==1.6.6",
    "duckdb==2.0.0",
    "apache-airflow==3.3.2",
    "great-expectations==1.24.1",
    "confluent-kafka==2.16.1",
)
LOCK = (PROJECT / "requirements.lock").read_text()


def test_every_package_has_a_hash():
    blocks = re.split(r"\n(?=[a-zA-Z0-9])", LOCK)
    packages = [block for block in blocks if re.match(r"^[a-zA-Z0-9._\[\]-]+==", block)]
    assert len(packages) > 150
    assert all("--hash=sha256:" in block for block in packages)


def test_no_index_address():
    assert not re.search(r"https?://|--index-url|--find-links", LOCK)


def test_the_pins_of_the_design():
    for pin in PINS:
        assert f"\n{pin} " in LOCK, pin


def test_no_machine_path_or_index_in_the_tree():
    import subprocess

    files = subprocess.run(
        ["git", "ls-files"], cwd=PROJECT, capture_output=True, text=True, check=True
    ).stdout.split()
    bad = re.compile(r"(^|[^A-Za-z0-9_.])/(work|root|farm)/|https?://[\w.-]+/(maven2|simple)/")
    for name in files:
        path = PROJECT / name
        if (
            path.suffix in {".py", ".md", ".toml", ".xml", ".yml", ".lock", ".in", ""}
            and path.is_file()
        ):
            text = path.read_text(errors="ignore")
            assert not bad.search(text), name
