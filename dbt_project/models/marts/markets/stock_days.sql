select
    ticker,
    cast(minute as date) as day,
    cast(sum(trades) as bigint) as trades,
    min(low_ask) as low_ask,
    cast(sum(mean_price * trades) / sum(trades) as decimal(18, 6)) as mean_price,
    min_by(first_price, minute) as first_price,
    max_by(last_price, minute) as last_price,
    cast(
        (max_by(last_price, minute) - min_by(first_price, minute))
        / nullif(min_by(first_price, minute), 0) as decimal(18, 6)
    ) as change,
    max_by(minute, struct(trades, minute)) as busiest_minute,
    count(*) as minutes
from {{ ref('stock_minutes') }}
group by ticker, cast(minute as date)
