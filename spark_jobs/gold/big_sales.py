"""gold.big_sales: sales that somebody wants to hear of at once, and who that is."""

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from penstock.model import Rows, events, notification, table

_BIG = 10_000  # dollars
# Who answers for a model; the till does not say who sold.
_SALESPEOPLE = {"runner": "ines", "boot": "bruno", "sandal": "sol", "loafer": "lotte"}
_EVERYTHING_ELSE = "manager"


@table(
    "gold.big_sales",
    inputs={"sales": "silver.sales"},
    kind=Rows(),
    keys=("sale_id",),
    freshness="10 seconds",
    owner="shop",
)
def big_sales(sales: DataFrame) -> DataFrame:
    """One row per sale of more than 10,000 $, with the salesperson who is told of it."""
    who = F.lit(_EVERYTHING_ELSE)
    for model, name in _SALESPEOPLE.items():
        who = F.when(F.col("model") == model, name).otherwise(who)
    return sales.where(F.col("revenue") > _BIG).select(
        "sale_id",
        "model",
        "size",
        "quantity",
        "revenue",
        "sold_at",
        who.alias("salesperson"),
    )


BIG_SALE_EVENTS = events(big_sales, topic="out.big_sales", corrections=False)

BIG_SALE = notification(
    big_sales,
    name="big_sale",
    to="salesperson",
    subject="A sale of {revenue:,} $",
    text="{quantity} pairs of {model}, size {size}, for {revenue:,} $ "
    "({sale_id}, {sold_at:%d %B, %H:%M} UTC)",
)
