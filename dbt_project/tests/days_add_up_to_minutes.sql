-- Both are built in one run, the days from the minutes: every trade is in both.
with days as (select ticker, day, trades from {{ ref('stock_days') }}),
minutes as (
    select ticker, cast(minute as date) as day, sum(trades) as trades
    from {{ ref('stock_minutes') }}
    group by ticker, cast(minute as date)
)
select coalesce(d.ticker, m.ticker) as ticker, coalesce(d.day, m.day) as day, d.trades, m.trades as counted
from days as d
full outer join minutes as m on d.ticker = m.ticker and d.day = m.day
where not (d.trades <=> m.trades)
