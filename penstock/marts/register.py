"""Names for live tables: each is registered once, as an external Delta table at its live path.

**How it works.** The metastore is brought to what the warehouse holds: a table that has a log gets
a name; one that is declared but was never written gets an empty view with its columns, so that a
mart over it is empty and not broken; names of tables that are gone go. Run again, nothing changes.
Registering reads the log and writes nothing to it: the live log has one writer.

**What it does not do.** Drop data: every table here is external, so dropping a name is all that a
drop does, also in a home that was copied and whose metastore still names the original's paths.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.parse import unquote, urlparse

from penstock.marts.places import LAYER
from penstock.serve.catalog import LAYERS, Catalog, TableRef

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from penstock.settings import Settings

__all__ = ["Columns", "Registered", "register_live"]

STAGING = "staging"  # dbt's views
Columns = Mapping[str, str]  # name -> SQL type


@dataclass
class Registered:
    """What was done."""

    tables: list[str] = field(default_factory=list)  # all that have a name and data
    empty: list[str] = field(default_factory=list)  # declared, no data yet
    changed: list[str] = field(default_factory=list)  # names added, moved or dropped this time


def register_live(
    session: SparkSession,
    settings: Settings,
    declared: Mapping[str, Columns],
    only: Collection[str] | None = None,
) -> Registered:
    """Bring the metastore to the warehouse.

    Args:
        declared: columns of tables the marts read, by ``layer.name``: the shape of a table that
            has no data yet.
        only: of live tables, leave every name alone but these; a name takes a fifth of a second
            the first time, and a warehouse has hundreds. Marts are looked at all the same: dbt
            writes where their names say.
    """
    catalog, done = Catalog.load(settings), Registered()
    existing = {str(row[0]) for row in session.sql("SHOW DATABASES").collect()}
    for layer in (*LAYERS, STAGING):
        if layer not in existing:
            session.sql(f"CREATE DATABASE IF NOT EXISTS {layer}")
    meant = [ref for ref in catalog if _is_meant(ref.label, only)]
    stored = {ref.label: ref for ref in meant if catalog.has_data(ref)}
    for layer in LAYERS:
        known = _known(session, layer, only)
        wanted = {label: ref for label, ref in stored.items() if ref.layer == layer}
        shapes = {
            name: columns
            for name, columns in declared.items()
            if _layer(name) == layer and name not in wanted and _is_meant(name, only)
        }
        for name in sorted(known.keys() - wanted.keys() - shapes.keys()):
            if layer != LAYER or known[name].is_table:
                _drop(session, name, known[name])
                done.changed.append(name)
        _register_stored(session, catalog, wanted, known, done)
        _stand_in(session, shapes, known, done)
    return done


@dataclass(frozen=True)
class _Known:
    """A name the metastore has."""

    is_table: bool
    location: str = ""
    columns: tuple[str, ...] = ()


def _is_meant(label: str, only: Collection[str] | None) -> bool:
    return only is None or label in only or _layer(label) == LAYER


def _layer(label: str) -> str:
    return label.partition(".")[0]


def _known(session: SparkSession, layer: str, only: Collection[str] | None) -> dict[str, _Known]:
    found = {}
    catalog = session._jsparkSession.sessionState().catalog()
    for row in session.sql(f"SHOW TABLES IN {layer}").collect():
        name = f"{layer}.{row['tableName']}"
        if row["isTemporary"] or not _is_meant(name, only):
            continue
        # Asked from the catalog itself: DESCRIBE would open the table, and it may be gone.
        entry = catalog.getTableMetadata(
            session._jsparkSession.sessionState().sqlParser().parseTableIdentifier(name)
        )
        is_table = entry.tableType().name() != "VIEW"
        place = str(entry.location().toString()) if is_table else ""
        columns = () if is_table else tuple(str(n) for n in entry.schema().fieldNames())
        found[name] = _Known(is_table, _address(place), columns)
    return found


def _address(place: str) -> str:
    """A path on a disk, or the address in a store, as the warehouse has it."""
    parts = urlparse(place)
    return unquote(place if parts.scheme not in ("", "file") else parts.path)


def _register_stored(
    session: SparkSession,
    catalog: Catalog,
    wanted: Mapping[str, TableRef],
    known: Mapping[str, _Known],
    done: Registered,
) -> None:
    for label, ref in wanted.items():
        path, has = str(catalog.folder(ref)), known.get(label)
        if has is None or not has.is_table or Path(has.location) != Path(path):
            if has is not None:
                _drop(session, label, has)
            _name(session, label, path)
            done.changed.append(label)
        done.tables.append(label)


def _name(session: SparkSession, label: str, path: str) -> None:
    """An external Delta table, straight into the catalog.

    CREATE TABLE would first compute the table's whole state from its log, in Spark jobs that take a
    second or two a table, and then store none of it: a Delta table has its columns in its log.
    """
    jvm: Any = session._jvm
    state, some = session._jsparkSession.sessionState(), jvm.scala.Option.apply
    of = jvm.org.apache.spark.sql.catalyst.catalog
    storage = of.CatalogStorageFormat.empty()
    kept = [getattr(storage, f"copy$default${n}")() for n in range(2, 7)]
    place = of.CatalogUtils.stringToURI(path)
    usual = [getattr(of.CatalogTable, f"apply$default${n}")() for n in range(6, 22)]
    entry = of.CatalogTable(
        state.sqlParser().parseTableIdentifier(label),
        of.CatalogTableType.EXTERNAL(),
        storage.copy(some(place), *kept),
        jvm.org.apache.spark.sql.types.StructType(),
        some("delta"),
        *usual,
    )
    state.catalog().createTable(entry, False, False)


def _stand_in(
    session: SparkSession,
    shapes: Mapping[str, Columns],
    known: Mapping[str, _Known],
    done: Registered,
) -> None:
    for label, columns in shapes.items():
        has = known.get(label)
        if has is None or has.is_table or has.columns != tuple(columns):
            if has is not None:
                _drop(session, label, has)
            session.sql(f"CREATE VIEW {label} AS SELECT {_nothing(columns)} WHERE false")
            done.changed.append(label)
        done.empty.append(label)


def _nothing(columns: Columns) -> str:
    return ", ".join(f"CAST(NULL AS {kind}) AS `{name}`" for name, kind in columns.items())


def _drop(session: SparkSession, label: str, has: _Known) -> None:
    session.sql(f"DROP {'TABLE' if has.is_table else 'VIEW'} IF EXISTS {label}")
