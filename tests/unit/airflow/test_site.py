"""Pages beside the UI: for who is logged in, and nothing but pages."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from penstock.airflow.site import app, found
from penstock.settings import Settings


@pytest.fixture
def base(tmp_path: Path) -> Path:
    base = tmp_path / "sites"
    (base / "quality" / "deep").mkdir(parents=True)
    (base / "quality" / "index.html").write_text("docs")
    (base / "quality" / "deep" / "a.css").write_text("css")
    (base / "quality" / ".hidden.html").write_text("no")
    (base / "quality" / "run.py").write_text("no")
    (tmp_path / "secret.html").write_text("secret")
    (base / "quality" / "link.html").symlink_to(tmp_path / "secret.html")
    (base / "away").symlink_to(tmp_path)
    return base


def test_pages_and_their_indexes(base: Path) -> None:
    assert found(base, "quality/index.html") == base / "quality" / "index.html"
    assert found(base, "quality/") == base / "quality" / "index.html"
    assert found(base, "quality/deep/a.css") == base / "quality" / "deep" / "a.css"


@pytest.mark.parametrize(
    "path",
    ["../secret.html", "quality/../../secret.html", "quality/link.html", "away/secret.html",
     "quality/.hidden.html", "quality/run.py", "quality/deep", "", "none.html", "quality\\..\\x",
     "quality/a\0.html", "/etc/passwd", "//etc/passwd", "x" * 5000 + ".html"],
)  # fmt: skip
def test_anything_else_does_not_exist(base: Path, path: str) -> None:
    assert found(base, path) is None


def test_a_folder_that_is_itself_a_link_is_refused(base: Path, tmp_path: Path) -> None:
    (tmp_path / "linked").symlink_to(base)
    assert found(tmp_path / "linked", "quality/index.html") is None


@pytest.fixture
def client(base: Path, settings: Settings, monkeypatch: pytest.MonkeyPatch):
    from fastapi.testclient import TestClient

    settings.home.mkdir(parents=True)
    base.rename(settings.sites)
    monkeypatch.setattr(Settings, "load", classmethod(lambda cls: settings))
    return TestClient(app, follow_redirects=False)


def test_a_stranger_sees_nothing(client) -> None:
    for path in ("/", "/sites/quality/", "/reports/x.html", "/nothing/at/all"):
        assert client.get(path).status_code == 401, path
        shown = client.get(path, headers={"accept": "text/html"})
        assert shown.status_code == 303, path
        assert shown.headers["location"].startswith("/auth/login?next="), path


HIDDEN = (
    "/sites/quality/link.html",
    "/sites/%2e%2e/secret.html",
    "/secrets/kafka-admin",
    "/sites/quality/..%2f..%2fsecret.html",
    "/reports/none.html",
)


def test_who_is_logged_in_sees_pages_that_keep_to_themselves(client) -> None:
    from airflow.api_fastapi.core_api.security import get_user

    app.dependency_overrides[get_user] = lambda: "somebody"
    try:
        page = client.get("/sites/quality/")
        assert (page.status_code, page.text) == (200, "docs")
        policy = page.headers["content-security-policy"]
        assert "connect-src http://testserver/sites/quality/;" in policy
        assert page.headers["x-content-type-options"] == "nosniff"
        assert client.get("/sites/quality").status_code == 307
        for path in HIDDEN:
            assert client.get(path).status_code == 404, path
        assert "Data Docs" in client.get("/").text
    finally:
        app.dependency_overrides.clear()


def test_the_policy_names_the_place_where_the_pages_are(client) -> None:
    """Airflow mounts the app below its own root."""
    from airflow.api_fastapi.core_api.security import get_user
    from fastapi import FastAPI
    from fastapi.testclient import TestClient

    airflow = FastAPI()
    airflow.mount("/penstock", app)
    app.dependency_overrides[get_user] = lambda: "somebody"
    try:
        page = TestClient(airflow).get("/penstock/sites/quality/")
    finally:
        app.dependency_overrides.clear()
    policy = page.headers["content-security-policy"]
    assert "connect-src http://testserver/penstock/sites/quality/;" in policy


def test_the_overview_tells_what_a_report_is_about(client, settings: Settings) -> None:
    from airflow.api_fastapi.core_api.security import get_user

    folder = settings.reports / "20261117-120000-abcd"
    folder.mkdir(parents=True)
    told = {"within": True, "tables": [{"table": "gold.a"}, {"table": "<b>"}]}
    (folder / "120001.html").write_text("x")
    (folder / "120001.json").write_text(json.dumps(told))
    (folder / "120002.html").write_text("x")
    app.dependency_overrides[get_user] = lambda: "somebody"
    try:
        shown = client.get("/")
    finally:
        app.dependency_overrides.clear()
    assert "gold.a, &lt;b&gt;</a></td><td>within thresholds" in shown.text
    assert "reports/20261117-120000-abcd/120002.html" in shown.text
    assert "script-src" not in shown.headers["content-security-policy"]
