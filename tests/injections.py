# ruff: noqa: E501 - attacks are not wrapped
"""Strings that people send who hope that somebody pastes them into a shell, a query or a page."""

from __future__ import annotations

_COMMANDS = ("id", "cat /etc/passwd", "rm -rf /", "curl http://127.0.0.1:1/x", "sleep 9")
_SHELL = (
    ";{}",
    "; {}",
    "&& {}",
    "| {}",
    "|| {}",
    "`{}`",
    "$({})",
    "\n{}\n",
    "'; {} #",
    '"; {} #',
    "& {} &",
)
_QUERIES = (
    "' OR '1'='1", '" OR ""="', "'; DROP TABLE revision; --", "1; DROP TABLE users", "admin'--",
    "' UNION SELECT * FROM pg_shadow --", "1 OR 1=1", "x'); DELETE FROM hold; --", "%' OR 1=1 --",
    "gold.stock_stats; select 1", "gold.stock_stats' --", "'||pg_sleep(9)||'", "/**/OR/**/1=1",
    "read_csv('/etc/passwd') = 1", "old.x = (select 1) => y", "new.a = 1; drop table b => c",
    "new.size > 1 => '; drop table b", "old.a = getenv('HOME') => reason", "$$;copy x to '/tmp/x'$$",
    "a => sum(b) as c; attach '/etc/passwd'",
)  # fmt: skip
_PATHS = (
    "../../etc/passwd", "..\\..\\windows\\win.ini", "/etc/passwd", "file:///etc/passwd", "....//etc",
    "%2e%2e%2fetc%2fpasswd", "..%c0%af..%c0%afetc", "gold/../silver", "gold.stock_stats/../..",
    "\\\\host\\share", "~/.ssh/id_rsa", "/proc/self/environ", "gold.stock_stats\0", "../secrets/kafka",
    "s3://bucket/x?y=<z>",
)  # fmt: skip
_TEMPLATES = (
    "{{ 7*7 }}", "{{ config }}", "{% raw %}", "{{ ''.__class__.__mro__ }}", "${jndi:ldap://x/y}",
    "#{7*7}", "<%= 7*7 %>", "${{7*7}}", "{{ var.value.x }}", "{{ conn.x.password }}",
    "{{ ti.xcom_pull('a') }}", "%(password)s", "{0.__init__.__globals__}", "{{ macros }}", "${HOME}",
)  # fmt: skip
_PAGES = (
    "<script>alert(1)</script>", "<img src=x onerror=alert(1)>", "\"><svg/onload=alert(1)>",
    "javascript:alert(1)//<", "<a href='javascript:x'>y</a>", "</textarea><script>x</script>",
    "[x](javascript:alert`1`)", "<iframe src=//x>", "&lt;script&gt;", "<!--#exec cmd='id'-->",
)  # fmt: skip
_OPTIONS = (
    "--help", "-h", "--json", "--why=x", "--accept-differences=x", "--from=BEGINNING", "-rf",
    "--as=root", "--all", "--full", "--boundary=gold", "--to=parquet", "--", "-", "--config=/etc/x",
)  # fmt: skip
_ODD = (
    "\x00", "\x1b[2J", "a\x07b", "\u202egold", "a\rb", "gold.stock_stats\n", " gold.stock_stats",
    "gold.stock_stats ", "GOLD.STOCK_STATS", "gold.stock_stats,gold.sensor_5m", "[]", "{}", "null",
    "true;", "1e309;", "NaN;", "0x41;", "\uff1b id", "\ufeffgold", "A" * 100_000, "%00", "%0a", "\\x00",
    "\\n", "$IFS", "*", "?*", "~", "!!", "@@version", "=1+1", "+1+1|x", "@SUM(1)", "-2+3",
)  # fmt: skip
_DATES = (
    "2026-13-45'", "2026-11-01T00:00Z; id", "7 days; id", "BEGINNING--", "99999999 days'", "-7 days",
    "2026-11-01\n", "now()", "'now'::timestamp", "7 days OR 1=1",
)  # fmt: skip
_MARKUP = (
    "<?xml version='1.0'?><!DOCTYPE x [<!ENTITY y SYSTEM 'file:///etc/passwd'>]>", "*)(uid=*))(|(uid=*",
    "{\"$ne\": null}", "{\"$where\": \"sleep(9)\"}", "a\r\nSet-Cookie: x=y", "a\r\n\r\n<html>", "<x:y/>",
    "] | //user/*[contains(*,'", "count(//user)='x", "\\u0027 or 1", "`whoami`.x", "a' | 'b", "x=y&z=w",
    "http://169.254.169.254/latest/<x>", "gopher://127.0.0.1:1/_x\n",
)  # fmt: skip
_PICKLES = ("cos\nsystem\n(S'id'\ntR.", "gASV;", "!!python/object/apply:os.system ['id']")

CORPUS: tuple[str, ...] = tuple(
    dict.fromkeys(
        [shape.format(command) for shape in _SHELL for command in _COMMANDS]
        + [f"gold.stock_stats{shape.format(c)}" for shape in _SHELL[:6] for c in _COMMANDS[:3]]
        + [*_QUERIES, *_PATHS, *_TEMPLATES, *_PAGES, *_OPTIONS, *_ODD, *_DATES, *_MARKUP, *_PICKLES]
    )
)
