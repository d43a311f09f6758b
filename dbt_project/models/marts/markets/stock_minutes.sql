{{ config(
    materialized='incremental',
    incremental_strategy='merge',
    unique_key=['ticker', 'minute'],
    meta={'follows': {'gold.stock_stats': "date_trunc('hour', window_start)"}, 'scope': 'hour'},
    pre_hook="{{ note_position() }}",
    post_hook="{{ end_note() }}",
) }}
-- Windows of five seconds begin every second; every fifth of them holds each trade exactly once.
with windows as (
    select *, date_trunc('hour', window_start) as hour, date_trunc('minute', window_start) as minute
    from {{ ref('stg_stock_stats') }}
    where is_final and unix_seconds(window_start) % 5 = 0
)

select
    ticker,
    minute,
    hour,
    cast(sum(trades) as bigint) as trades,
    min(min_ask_price) as low_ask,
    -- Decimals add up to the same in any order.
    cast(sum(cast(avg_price as decimal(18, 8)) * trades) / sum(trades) as decimal(18, 6)) as mean_price,
    cast(min_by(avg_price, window_start) as decimal(18, 6)) as first_price,
    cast(max_by(avg_price, window_start) as decimal(18, 6)) as last_price,
    count(*) as windows
from windows
where {{ is_touched('hour') }}
group by ticker, minute, hour
