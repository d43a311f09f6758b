"""The only place that builds a Spark session."""

from __future__ import annotations

import fcntl
import os
import shlex
import shutil
import sys
import tempfile
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, nullcontext
from dataclasses import replace
from pathlib import Path
from typing import IO, TYPE_CHECKING

from penstock import metastore as names
from penstock.errors import EnvironmentProblem, PenstockError, ServiceFailed, in_a_line
from penstock.modest import give_way
from penstock.settings import Settings
from penstock.spark import cluster
from penstock.spark import store as spark_store
from penstock.spark.settings import LOCAL, SparkSettings

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

__all__ = ["build_session", "claim_scratch"]

# Settings that decide results (time zone, ANSI, timestamp encoding) or latency on few cores.
_CONF = {
    "spark.sql.session.timeZone": "UTC",
    "spark.sql.ansi.enabled": "true",
    "spark.sql.parquet.outputTimestampType": "TIMESTAMP_MICROS",
    "spark.sql.shuffle.partitions": "2",
    "spark.sql.leafNodeDefaultParallelism": "1",  # rows handed over from memory are few
    # Files we name are looked at before they are read: by a task each as Spark has it, nine hundred
    # for an hour of small commits, and on a cluster each of them is a message and an answer.
    "spark.sql.sources.parallelPartitionDiscovery.parallelism": "8",
    "spark.sql.adaptive.enabled": "false",  # its extra stages cost tiny batches more than they save
    # Spark keeps 100 compiled pieces of plans by default, fewer than our tables together have:
    # then every batch of every table is compiled anew, by Janino and by the JIT.
    "spark.sql.codegen.cache.maxEntries": "2000",
    "spark.sql.execution.arrow.pyspark.enabled": "true",
    # Rows from memory are always an RDD: as literals of the plan they would be planned with it.
    "spark.sql.execution.arrow.localRelationThreshold": "0",
    "spark.sql.streaming.metricsEnabled": "false",
    "spark.sql.streaming.minBatchesToRetain": "2",
    # Checkpoints are disposable here. Spark's default manager forks a `readlink` per rename.
    "spark.sql.streaming.checkpointFileManagerClass": (
        "org.apache.spark.sql.execution.streaming.checkpointing."
        "FileSystemBasedCheckpointFileManager"
    ),
    "spark.sql.extensions": "io.delta.sql.DeltaSparkSessionExtension",
    "spark.sql.catalog.spark_catalog": "org.apache.spark.sql.delta.catalog.DeltaCatalog",
    "spark.databricks.delta.snapshotPartitions": "2",
    "spark.scheduler.mode": "FAIR",
    "spark.driver.bindAddress": "127.0.0.1",
    "spark.driver.host": "127.0.0.1",
    "spark.ui.enabled": "false",
    "spark.driver.maxResultSize": "1g",
    "spark.redaction.regex": "(?i)secret|password|passwd|token|jaas|sasl",
    "spark.sql.redaction.options.regex": "(?i)url|secret|password|passwd|token|jaas|sasl",
}

# Hadoop has no library of its own here and starts a `chmod` for every file it makes, several for
# each micro-batch's checkpoint: 50 ms of waiting. This one asks Java. Executors elsewhere find
# classes of ours too late for it.
_FILES = {"spark.hadoop.fs.file.impl": "com.globalmentor.apache.hadoop.fs.BareLocalFileSystem"}
_NAMED = {"spark.sql.catalogImplementation": "hive"}

_QUIET = Path(__file__).with_name("quiet.properties")
_SERVICE = Path(__file__).with_name("service.properties")


def build_session(
    settings: Settings,
    app: str,
    *,
    memory: str = "2g",
    ui: bool = False,
    plans_only: bool = False,
    quiet: bool = False,
    modest: bool = False,
    metastore: bool = False,
    waiting: int = 0,
) -> SparkSession:
    """One session with the jars fetched at set-up; never resolves anything at start.

    It computes on the master of the settings (``settings.spark``), with the driver in this process.

    Args:
        plans_only: nothing is computed, so that no executor is worth asking for.
        quiet: somebody is looking: what the JVM says goes to a log of the command's own.
        modest: heavy work that can wait: whatever else wants a core gets it first.
        metastore: tables can be named (``gold.stock_stats``), from the metastore in Postgres. The
            platform has to run, and the first statement takes some seconds longer.
        waiting: how many tasks at once do little but wait, for a broker: a slot each, or they would
            keep the others from the cores.
    """
    if modest:
        give_way(10)  # the JVM inherits it
    spark = replace(settings.spark, master=LOCAL) if plans_only else settings.spark
    spark = spark.with_room(waiting)
    given = spark.given(app.removeprefix("penstock-"))
    jars = _jars(settings)
    if not spark.is_local:
        cluster.require(settings, given)
    class_path = list(jars)
    if metastore:
        names.require(settings)
        class_path.insert(0, str(names.client_folder(settings)))  # Hive's client looks in a folder
        class_path += spark_store.class_path(settings)
    _set_environment(spark, given)
    scratch = claim_scratch(settings.run / "spark")
    conf = _CONF | (_NAMED if metastore else {}) | (_FILES if spark.is_local else {})
    conf |= _own_conf(settings, scratch, memory=memory, ui=ui)
    conf |= given if spark.is_local else cluster.executor_conf(spark, given, jars)
    conf |= {
        "spark.driver.extraClassPath": ":".join(class_path),
        "spark.driver.extraJavaOptions": _java_options(scratch, quiet=quiet),
    }
    # What is in the file goes to Spark by the file: settings are arguments of the JVM's start, for
    # everybody's `ps` to read.
    filed = spark.from_file()
    with _aside(settings.logs / f"{app}.log") if quiet else nullcontext():
        session = _started(spark, app, {k: v for k, v in conf.items() if filed.get(k) != v})
    session.sparkContext.setLogLevel("ERROR" if quiet else "WARN")
    if not spark.is_local:
        cluster.ship_package(session, scratch)
        cluster.await_executors(session, settings)
    if metastore:
        with names.one_at_a_time(settings):
            session.sql("SHOW DATABASES").collect()
    return session


def _own_conf(settings: Settings, scratch: Path, *, memory: str, ui: bool) -> dict[str, str]:
    """What differs from stack to stack and from session to session."""
    return {
        "spark.driver.memory": memory,
        "spark.local.dir": str(scratch),
        "spark.sql.warehouse.dir": str(settings.home / "spark-warehouse"),
        "spark.ui.enabled": str(ui).lower(),
        "spark.ui.showConsoleProgress": "false",  # a bar redrawn for ever is no use in a log
        "spark.ui.port": str(settings.port("spark-ui")),
    }


def _jars(settings: Settings) -> list[str]:
    jars = sorted(str(path) for path in (settings.jars / "spark").glob("*.jar"))
    if not jars:
        raise EnvironmentProblem(
            f"Spark's extra jars are not in {settings.jars}.", remedy="Run `make setup`."
        )
    return jars


def _set_environment(spark: SparkSettings, given: Mapping[str, str]) -> None:
    """What Spark reads before it has a configuration."""
    # Java's and Python's zone must be UTC too: Delta and collect() read them, not the session's.
    os.environ["TZ"] = "UTC"
    # Python workers are this Python, with its packages: not whatever `python3` means in the path.
    os.environ["PYSPARK_PYTHON"] = given.get("spark.pyspark.python", sys.executable)
    file = ["--properties-file", shlex.quote(str(spark.file))] if spark.file else []
    os.environ["PYSPARK_SUBMIT_ARGS"] = " ".join([*file, "pyspark-shell"])


def _java_options(scratch: Path, *, quiet: bool) -> str:
    return " ".join(
        [
            "-Duser.timezone=UTC",
            f"-Djava.io.tmpdir={scratch}",
            "-XX:+UseParallelGC",
            "-Xss4m",
            # What Spark generates for a row of many columns is longer than what Java compiles.
            "-XX:-DontCompileHugeMethods",
            # Python workers, and Hadoop where executors are elsewhere, are forked off a big JVM.
            "-Djdk.lang.Process.launchMechanism=VFORK",
            f"-Dlog4j2.configurationFile={_QUIET if quiet else _SERVICE}",
        ]
    )


@contextmanager
def _aside(log: Path) -> Iterator[None]:
    """Let a JVM that starts within say what it has to say to a file, for as long as it lives.

    Java and Spark greet whoever starts them, and no setting keeps them from it.
    """
    log.parent.mkdir(parents=True, exist_ok=True)
    kept = os.dup(2)
    try:
        with log.open("wb") as file:
            os.dup2(file.fileno(), 2)
        yield
    except Exception as error:
        error.add_note(log.read_text(errors="replace")[-2000:])
        raise
    finally:
        os.dup2(kept, 2)
        os.close(kept)


def _started(spark: SparkSettings, app: str, conf: Mapping[str, str]) -> SparkSession:
    from pyspark.sql import SparkSession

    builder = SparkSession.builder.appName(app).master(spark.master)
    for key, value in conf.items():
        builder = builder.config(key, value)
    try:
        return builder.getOrCreate()
    except Exception as error:
        if spark.is_local or isinstance(error, PenstockError):
            raise
        raise ServiceFailed(
            f"no application could be started on {spark.master}: {in_a_line(error)}",
            remedy="Look at the master's log: its version must be ours, its secret the one in "
            "PENSTOCK_SPARK_CONF. Then `penstock doctor`.",
        ) from error


_ALIVE = ".alive"
_held: list[
    IO[str]
] = []  # open for as long as this process lives: their locks are its sign of life


def claim_scratch(root: Path) -> Path:
    """A folder for one session's scratch files, after sweeping out those of dead processes.

    Spark empties its folder only when it may leave in peace; one that is killed leaves gigabytes.
    Who is alive is told by a lock the kernel takes back, not by a pid: pids mean nothing to another
    container on the same home.
    """
    root.mkdir(parents=True, exist_ok=True)
    with (root / ".door").open("w") as door:
        fcntl.flock(door, fcntl.LOCK_EX)  # one at a time: nobody sweeps a folder being claimed
        for folder in root.glob("session-*"):
            if not _is_held(folder):
                shutil.rmtree(folder, ignore_errors=True)
        own = Path(tempfile.mkdtemp(dir=root, prefix="session-"))
        sign = (own / _ALIVE).open("w")
        fcntl.flock(sign, fcntl.LOCK_EX)
    _held.append(sign)
    return own


def _is_held(folder: Path) -> bool:
    try:
        with (folder / _ALIVE).open("r+") as sign:
            fcntl.flock(sign, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except FileNotFoundError:
        return False
    except OSError:  # locked by its owner, or not ours to open
        return True
    return False
