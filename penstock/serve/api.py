"""The read API: look-ups on live tables over HTTP, on loopback, for whoever has the token.

Purpose: the answers of `penstock get` for programs, without a process per question.

How it works: every request is answered from one version of one table by the process's one reader
(``lookup``). The version is in the answer, in the header ``Penstock-Version`` and in the ETag; a
client that sends the ETag back gets 304 while nothing was committed. Refusals are JSON with
``error`` and ``remedy``: what is wrong and what to do.

What it does not do: write, run SQL, or listen anywhere but on loopback (in a container, on the
container's own network).
"""

from __future__ import annotations

import hmac
from collections.abc import Awaitable, Callable
from typing import Annotated, Any

from fastapi import Depends, FastAPI, Header, Path, Query, Request, Response
from fastapi.exceptions import RequestValidationError
from fastapi.responses import HTMLResponse
from fastapi.security import HTTPAuthorizationCredentials, HTTPBearer
from starlette.exceptions import HTTPException
from starlette.middleware.trustedhost import TrustedHostMiddleware

from penstock import __version__
from penstock.errors import NotRunning, PenstockError, UsageError
from penstock.serve import api_docs
from penstock.serve.answers import about, answered, listed
from penstock.serve.asked import MOST_ROWS, Ask
from penstock.serve.catalog import UnknownTable
from penstock.serve.lag import Lag
from penstock.serve.limits import Gone, TooWide
from penstock.serve.live_log import LogState
from penstock.serve.lookup import Reader
from penstock.serve.render import to_json

__all__ = ["create_app"]

_STATUS: tuple[tuple[type[PenstockError], int], ...] = (
    (UnknownTable, 404),
    (TooWide, 413),
    (Gone, 410),
    (UsageError, 400),
    (NotRunning, 503),
    (PenstockError, 503),
)
_HOSTS = ["127.0.0.1", "localhost", "[::1]", "api"]  # not a name that somebody else's page resolves

_SAFE = {
    "X-Content-Type-Options": "nosniff",
    "Content-Security-Policy": "default-src 'none'; style-src 'unsafe-inline'",
}

_bearer = HTTPBearer(auto_error=False, description="The token in secrets/api-bearer of the stack.")
_Name = Annotated[
    str, Path(description="layer.table, or with a moment: gold.x@version:17", max_length=200)
]
_Match = Annotated[str | None, Header(alias="If-None-Match", max_length=1000)]


_ASKED = ("key", "from", "to", "on", "columns", "limit", "order", "cursor")


class _Refused(PenstockError):
    """No token, or another one."""


def create_app(reader: Reader, lag: Lag, token: str) -> FastAPI:
    """The application, for one stack."""
    app = FastAPI(
        title="Penstock read API",
        version=__version__,
        description=api_docs.DESCRIPTION,
        docs_url=None,  # FastAPI's own page fetches its scripts from elsewhere
        redoc_url=None,
    )
    app.add_middleware(TrustedHostMiddleware, allowed_hosts=_HOSTS)
    for kind, handler in _HANDLERS.items():
        app.add_exception_handler(kind, handler)
    secret = token.encode()

    def allowed(given: Annotated[HTTPAuthorizationCredentials | None, Depends(_bearer)]) -> None:
        offered = given.credentials.encode(errors="replace") if given else b""
        if not hmac.compare_digest(offered, secret):
            raise _Refused(
                "a token is needed." if given is None else "this is not the token.",
                remedy="Send `Authorization: Bearer $(cat .penstock/secrets/api-bearer)`.",
            )

    _open_routes(app)
    _table_routes(app, reader, lag, [Depends(allowed)])
    return app


def _open_routes(app: FastAPI) -> None:
    @app.get("/health", tags=["service"], response_model=api_docs.Health)
    def health() -> dict[str, str]:
        """Whether the API answers; needs no token."""
        return {"status": "ok", "version": __version__}

    @app.get("/docs", include_in_schema=False, response_class=HTMLResponse)
    def docs() -> HTMLResponse:
        return HTMLResponse(api_docs.page(app.openapi()), headers=_SAFE)


def _table_routes(app: FastAPI, reader: Reader, lag: Lag, allowed: list[Any]) -> None:
    @app.get(
        "/tables",
        tags=["tables"],
        dependencies=allowed,
        responses=api_docs.answers(api_docs.Tables),
    )
    def tables() -> Response:
        """The tables there are, and what their rows are looked up by."""
        return _json({"tables": listed(reader)})

    @app.get(
        "/tables/{name}",
        tags=["tables"],
        dependencies=allowed,
        responses=api_docs.answers(api_docs.Table),
    )
    def table(name: _Name, if_none_match: _Match = None) -> Response:
        """One table: keys, columns, version, when that was committed, size."""
        found = reader.state(name)
        if _same(found[1], if_none_match):
            return _unchanged(found[1])
        return _json(about(reader, lag, found), found[1])

    @app.get(
        "/tables/{name}/rows",
        tags=["rows"],
        dependencies=allowed,
        responses=api_docs.answers(api_docs.Rows),
    )
    def rows(
        name: _Name,
        asked: Annotated[Ask, Depends(_ask)],
        if_none_match: _Match = None,
    ) -> Response:
        """Rows by key, by the first keys, or by range; all of them from one version."""
        opened = reader.open(asked)
        if _same(opened.state, if_none_match):
            return _unchanged(opened.state)
        answer = reader.read(opened)
        return _json(answered(reader, lag, answer), answer.opened.state)


def _ask(  # noqa: PLR0917 - what an address may hold
    request: Request,
    name: _Name,
    key: Annotated[
        list[str], Query(description="A key's value; once per key, in their order. NULL is \\N.")
    ] = [],  # noqa: B006 - FastAPI copies it
    start: Annotated[
        str | None, Query(alias="from", description="The range begins here, included.")
    ] = None,
    end: Annotated[str | None, Query(alias="to", description="The range ends before this.")] = None,
    on: Annotated[
        str | None,
        Query(description="The range is of this column; by default the time among the keys."),
    ] = None,
    columns: Annotated[str, Query(description="Only these columns: a,b,c.")] = "",
    limit: Annotated[
        int, Query(description=f"Rows a page, 1 to {MOST_ROWS}.", ge=-(10**9), le=10**9)
    ] = 100,
    order: Annotated[
        str, Query(pattern="^(asc|desc)$", description="desc: the latest first.")
    ] = "asc",
    cursor: Annotated[
        str | None, Query(description="`next` of the page before; all else stays as it was.")
    ] = None,
) -> Ask:
    for other in request.query_params:
        if other not in _ASKED:
            raise UsageError(
                f"there is no parameter {other[:60]!a}.",
                remedy=f"Parameters: {', '.join(_ASKED)}. Keys are given as key=, in their order.",
            )
    named = tuple(part.strip() for part in columns.split(",") if part.strip())
    return Ask(name, tuple(key), start, end, on, named, limit, order == "desc", cursor)


# --- answers --------------------------------------------------------------------------------
def _json(body: object, state: LogState | None = None, status: int = 200) -> Response:
    return Response(to_json(body), status, _headers(state), "application/json")


def _headers(state: LogState | None) -> dict[str, str]:
    if state is None:
        return {**_SAFE, "Cache-Control": "no-store"}
    return {
        **_SAFE,
        "ETag": _etag(state),
        "Penstock-Version": str(state.version),
        "Cache-Control": "private, no-cache",  # keep it, but ask whether it still holds
    }


def _etag(state: LogState) -> str:
    """Weak: of one version the rows are the same, how far it is behind is not."""
    return f'W/"{state.table_id[:8]}-{state.version}"'


def _same(state: LogState, if_none_match: str | None) -> bool:
    offered = (tag.strip() for tag in (if_none_match or "").split(","))
    return _etag(state) in offered


def _unchanged(state: LogState) -> Response:
    return Response(status_code=304, headers=_headers(state))


# --- refusals -------------------------------------------------------------------------------
def _refusal(status: int, error: str, remedy: str) -> Response:
    answer = _json({"error": error, "remedy": remedy}, status=status)
    if status == 401:
        answer.headers["WWW-Authenticate"] = "Bearer"
    return answer


async def _ours(_: Request, error: Exception) -> Response:
    assert isinstance(error, PenstockError)  # noqa: S101 - what the handler is registered for
    if isinstance(error, _Refused):
        return _refusal(401, error.message, error.remedy)
    status = next(code for kind, code in _STATUS if isinstance(error, kind))
    return _refusal(status, error.message, error.remedy)


async def _invalid(_: Request, error: Exception) -> Response:
    assert isinstance(error, RequestValidationError)  # noqa: S101 - as above
    first = error.errors()[0]
    where = ".".join(str(part) for part in first["loc"][1:])
    return _refusal(400, f"{where}: {first['msg']}", "See /docs for what may be asked, and how.")


async def _http(_: Request, error: Exception) -> Response:
    assert isinstance(error, HTTPException)  # noqa: S101 - as above
    return _refusal(error.status_code, str(error.detail), "See /docs for what there is.")


_HANDLERS: dict[type[Exception], Callable[[Request, Exception], Awaitable[Response]]] = {
    PenstockError: _ours,
    RequestValidationError: _invalid,
    HTTPException: _http,
}
