"""Pages beside the Airflow UI: comparison reports, Data Docs, dbt's docs; for whoever is logged in.

**How it works.** A plugin adds them to Airflow's own server, so they have its address and login. A
page is a file below one of the folders named here. Names are taken apart and walked one by one:
`..`, hidden names, links and anything that is not a plain file do not exist. A page may load and
ask for things of its own site only: what runs in it cannot speak to Airflow in its reader's name.
"""

from __future__ import annotations

import os
import stat
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
    root = str(request.base_url).rstrip("/")
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
    links = [(s.name, f"sites/{quote(s.name)}/") for s in _children(settings.sites)]
    for release in sorted(_children(settings.reports), reverse=True)[:50]:
        pages = sorted(release.glob("*.html"), reverse=True)
        links += [(f"comparison {release.name} {p.stem}",
                   f"reports/{quote(release.name)}/{quote(p.name)}") for p in pages]  # fmt: skip
    listed = "".join(f'<li><a href="{address}">{_escaped(n)}</a></li>' for n, address in links)
    body = f"<ul>{listed}</ul>" if links else "<p>Nothing was made yet.</p>"
    page = f"<!doctype html><title>Penstock</title><h1>Penstock</h1>{body}"
    return HTMLResponse(page, headers={"Content-Security-Policy": "default-src 'none'"})


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


def _escaped(text: str) -> str:
    return text.replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;")


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
