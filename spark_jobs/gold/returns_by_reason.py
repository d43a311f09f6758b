"""gold.returns_by_reason: why shoes come back."""

from penstock.model import Group, sql_table

RETURNS_BY_REASON = sql_table(
    "gold.returns_by_reason",
    inputs={"returns": "silver.returns"},
    kind=Group(by=("reason",)),
    keys=("reason",),
    freshness="20 seconds",
    owner="shop",
    doc="One row per reason: returns, pairs, money paid back, and the median pairs of a return.",
    query="""
        select
            reason,
            count(*) as returns,
            sum(quantity) as quantity,
            cast(sum(refunded) as decimal(28, 2)) as refunded,
            median(quantity) as median_quantity
        from {returns}
        group by reason
    """,
)
