"""Pages beside the Airflow UI: comparison reports, Data Docs, dbt's docs; for whoever is logged in.

**How it works.** A plugin adds them to Airflow's own server, so they have its address and login. A
page is a file below one of the folders named here. Names are taken apart and walked one by one:
`..`, hidden names, links and anything that is not a plain file do not exist. A page may load and
ask for things of its own site only: what runs in it cannot speak to Airflow in its reader's name.
"""

from __future__ import annotations

import datetime as dt
import html
import json
import os
import stat
from collections.abc import Sequence
from pathlib import Path
from urllib.parse import quote

from airflow.api_fastapi.core_api.security import get_user
from airflow.plugins_manager import AirflowPlugin
from fastapi import Depends, FastAPI, HTTPException, Request
from fastapi.responses import FileResponse, HTMLResponse, RedirectResponse, Response

from penstock.settings import Settings

__all__ = ["PenstockPlugin", "app", "found"]

PREFIX = "/penstock"
_TYPES = {
    ".html": "text/html; charset=utf-8",
    ".css": "text/css",
    ".js": "text/javascript",
    ".json": "application/json",
    ".svg": "image/svg+xml",
    ".png": "image/png",
    ".ico": "image/x-icon",
    ".woff2": "font/woff2",
    ".txt": "text/plain; charset=utf-8",
    ".md": "text/plain; charset=utf-8",
}
_MOST_RELEASES = 50
_SITES = {
    "quality": ("Data Docs", "what the expectations of every table came to"),
    "dbt": ("dbt docs", "every mart and column, its tests, and what it is made from"),
}
_OVERVIEW = """<!doctype html><html lang="en"><head><meta charset="utf-8"><title>Penstock</title>
<style>
body {{ font: 15px/1.5 system-ui, sans-serif; color: #222; background: #fafaf7; margin: 0; }}
main {{ max-width: 1080px; margin: 0 auto; padding: 24px; }} a {{ color: #2a6aa8; }}
h1 {{ font-size: 26px; margin: 0; }} h2 {{ font-size: 18px; margin: 28px 0 8px; }}
table {{ border-collapse: collapse; width: 100%; font-size: 14px; background: #fff; }}
td, th {{ text-align: left; padding: 6px 12px; border: 1px solid #e4e2da; }}
th {{ font-weight: 500; color: #777; }} .grey {{ color: #777; }}
</style></head><body><main><p><a href="/">Airflow</a></p><h1>Penstock</h1>
<h2>Sites</h2>{sites}<h2>Comparison reports</h2>{reports}</main></body></html>"""


def folders(settings: Settings) -> dict[str, Path]:
    """What is shown, by the first part of the address."""
    return {"reports": settings.reports, "sites": settings.sites}


def found(base: Path, path: str) -> Path | None:
    """The plain file a path names below a folder, or its index; None for anything else."""
    parts = [part for part in path.split("/") if part]
    if any(part.startswith(".") or "\\" in part or "\0" in part for part in parts):
        return None
    here = base
    try:
        for part in ["", *parts]:
            here = here / part if part else here
            if stat.S_ISLNK(here.lstat().st_mode):
                return None
        if stat.S_ISDIR(here.lstat().st_mode):
            here = here / "index.html"
        kind = here.lstat().st_mode
    except (OSError, ValueError):
        return None
    return here if stat.S_ISREG(kind) and here.suffix in _TYPES else None


def _policy(request: Request, word: str, path: str) -> str:
    """Scripts of a page may ask for files of its own site, and for nothing else."""
    # Not request.base_url: that is Airflow's, without the place where this app is mounted.
    root = f"{request.url.scheme}://{request.url.netloc}{request.scope.get('root_path', '')}"
    site = quote(path.split("/", 1)[0]) if word == "sites" else ""
    own = f"{root}/{word}/{site}/" if site else f"{root}/{word}/"
    return (
        f"default-src {own} 'unsafe-inline' data: blob:; "
        f"script-src {own} 'unsafe-inline' 'unsafe-eval'; connect-src {own}; "
        "form-action 'none'; base-uri 'none'; object-src 'none'; frame-ancestors 'self'"
    )


app = FastAPI(title="Penstock", docs_url=None, redoc_url=None, openapi_url=None)


@app.exception_handler(401)
async def _login(request: Request, error: Exception) -> Response:
    """A browser is sent to the login and back; a program is told."""
    if "text/html" in request.headers.get("accept", ""):
        back = quote(request.url.path, safe="")
        return RedirectResponse(f"/auth/login?next={back}", status_code=303)
    return Response("Not authenticated", status_code=401)


@app.get("/", dependencies=[Depends(get_user)])
def overview() -> HTMLResponse:
    """What there is to look at."""
    settings = Settings.load()
    policy = "default-src 'none'; style-src 'unsafe-inline'; frame-ancestors 'self'"
    page = _OVERVIEW.format(sites=_sites(settings), reports=_reports(settings))
    return HTMLResponse(page, headers={"Content-Security-Policy": policy})


def _sites(settings: Settings) -> str:
    rows = [
        f"<tr><td><a href='sites/{quote(site.name)}/'>{_e(title)}</a></td><td>{_e(about)}</td>"
        f"<td class='grey'>{_written(site / 'index.html')}</td></tr>"
        for site in sorted(_children(settings.sites))
        for title, about in [_SITES.get(site.name, (site.name, ""))]
    ]
    return _table(("site", "", "written"), rows)


def _reports(settings: Settings) -> str:
    rows = []
    for release in sorted(_children(settings.reports), reverse=True)[:_MOST_RELEASES]:
        for page in sorted(release.glob("*.html"), reverse=True):
            title, verdict = _compared(page.with_suffix(".json"))
            rows.append(
                f"<tr><td><a href='reports/{quote(release.name)}/{quote(page.name)}'>{_e(title)}"
                f"</a></td><td>{_e(verdict)}</td><td>{_e(release.name)}</td>"
                f"<td class='grey'>{_written(page)}</td></tr>"
            )
    return _table(("comparison", "verdict", "release", "compared"), rows)


def _compared(file: Path) -> tuple[str, str]:
    """What a report is about and what it came to; its name when that cannot be told."""
    try:
        told = json.loads(file.read_text())
        tables = ", ".join(one["table"] for one in told["tables"])
        return tables, "within thresholds" if told["within"] else "not within thresholds"
    except (OSError, ValueError, KeyError, TypeError):
        return file.stem, ""


def _table(titles: Sequence[str], rows: Sequence[str]) -> str:
    if not rows:
        return "<p class='grey'>Nothing was made yet.</p>"
    head = "".join(f"<th>{_e(title)}</th>" for title in titles)
    return f"<table><tr>{head}</tr>{''.join(rows)}</table>"


def _written(file: Path) -> str:
    try:
        at = dt.datetime.fromtimestamp(file.stat().st_mtime, dt.UTC)
    except OSError:
        return ""
    return f"{at:%Y-%m-%d %H:%M:%S}Z"


@app.get("/{word}/{path:path}", dependencies=[Depends(get_user)])
def page(request: Request, word: str, path: str) -> Response:
    base = folders(Settings.load()).get(word)
    file = found(base, path) if base is not None else None
    if file is None:
        raise HTTPException(404, "There is no such page.")
    if file.name == "index.html" and not path.endswith(("/", "index.html")):
        return RedirectResponse(f"{request.url.path}/", status_code=307)
    return FileResponse(
        file,
        media_type=_TYPES[file.suffix],
        headers={
            "Content-Security-Policy": _policy(request, word, path),
            "X-Content-Type-Options": "nosniff",
            "Cache-Control": "private, no-cache",
        },
    )


def _children(folder: Path) -> list[Path]:
    try:
        with os.scandir(folder) as entries:
            return [Path(e.path) for e in entries if e.is_dir(follow_symlinks=False)]
    except OSError:
        return []


def _e(text: str) -> str:
    return html.escape(text)


class PenstockPlugin(AirflowPlugin):
    """The pages, and their places in Airflow's menu."""

    name = "penstock"
    fastapi_apps = [{"app": app, "url_prefix": PREFIX, "name": "Penstock"}]  # noqa: RUF012
    external_views = [  # noqa: RUF012
        {"name": "Reports", "href": f"{PREFIX}/", "destination": "nav", "category": "browse"},
        {"name": "Data Docs", "href": f"{PREFIX}/sites/quality/", "destination": "nav",
         "category": "browse"},
        {"name": "dbt docs", "href": f"{PREFIX}/sites/dbt/", "destination": "nav",
         "category": "browse"},
    ]  # fmt: skip
