"""gold.machine_alerts: machines that run hotter or rougher than they use to, and ever more so."""

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

from penstock.model import sliding, table

_RISING = 3  # newest steps, each above the one before
_KNOWN = 6  # steps before those that say what is usual; fewer say nothing
_DEVIATIONS = 3  # how far above the usual the newest step is
_STEP = 10_000_000  # microseconds: the length of a step


@table(
    "gold.machine_alerts",
    inputs={"steps": "gold.machine_steps"},
    kind=sliding("10 minutes", by=("machine_id",), on="ended_at"),
    keys=("machine_id", "window_end"),
    freshness="20 seconds",
    owner="plant",
)
def machine_alerts(steps: DataFrame) -> DataFrame:
    """One row per machine and step of ten seconds at which its temperature or vibration alarms.

    A measure alarms when its three newest steps follow each other without a gap, each is above the
    one before, and the newest lies more than three standard deviations above the mean of the
    machine's other steps of the last ten minutes, of which there must be six.
    """
    one = F.struct("ended_at", "temperature", "vibration")
    gathered = steps.groupBy("machine_id", "window_end").agg(
        F.array_sort(F.collect_list(one)).alias("known")
    )
    split = gathered.where(F.size("known") >= _KNOWN + _RISING).select(
        "machine_id",
        "window_end",
        F.expr(f"slice(known, 1, greatest(size(known) - {_RISING}, 0))").alias("usual"),
        F.slice("known", -_RISING, _RISING).alias("newest"),
    )
    # Spark may judge a row before it has dropped it, so nothing here may fail on a short one.
    first, last = F.get("newest", F.lit(0)), F.get("newest", F.lit(_RISING - 1))
    apart = F.unix_micros(last["ended_at"]) - F.unix_micros(first["ended_at"])
    followed = apart == F.lit((_RISING - 1) * _STEP)
    judged = split.where(followed).select(
        "machine_id", "window_end", *_judged("temperature"), *_judged("vibration")
    )
    return judged.where(F.col("temperature_alarm") | F.col("vibration_alarm"))


def _judged(name: str) -> list[Column]:
    """The newest value, the usual one, and whether that is an alarm; whole numbers throughout.

    x is above mean + k * deviation of n values exactly when x * n - sum is positive and its square
    is above k * k * (n * sum of squares - sum * sum): no root, no division, nothing to round.
    """
    usual = f"transform(usual, s -> s.{name})"
    count, total = "size(usual)", f"aggregate({usual}, 0L, (a, x) -> a + x)"
    squares = f"aggregate({usual}, 0L, (a, x) -> a + x * x)"
    newest = f"get(newest, {_RISING - 1}).{name}"
    excess = f"({newest} * {count} - {total})"
    rising = " and ".join(
        f"get(newest, {i}).{name} < get(newest, {i + 1}).{name}" for i in range(_RISING - 1)
    )
    spread = f"({count} * {squares} - {total} * {total})"
    beyond = f"{excess} > 0 and {excess} * {excess} > {_DEVIATIONS**2} * {spread}"
    return [
        F.expr(newest).alias(name),
        F.expr(f"{total} div greatest({count}, 1)").alias(f"usual_{name}"),
        F.expr(f"{rising} and {beyond}").alias(f"{name}_alarm"),
    ]
