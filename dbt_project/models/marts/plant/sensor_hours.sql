{{ config(
    materialized='incremental',
    incremental_strategy='merge',
    unique_key=['sensor_id', 'hour'],
    meta={'follows': {'gold.sensor_5m': 'cast(window_start as date)'}, 'scope': 'day'},
    pre_hook="{{ note_position() }}",
    post_hook="{{ end_note() }}",
) }}
with windows as (
    select *, cast(window_start as date) as day, date_trunc('hour', window_start) as hour
    from {{ ref('stg_sensor_5m') }}
)

select
    sensor_id,
    hour,
    day,
    min(min_value) as min_value,
    max(max_value) as max_value,
    -- Doubles do not add up to the same in every order; decimals do.
    cast(
        sum(cast(mean_value as decimal(24, 9)) * cast(readings as decimal(9, 0))) / sum(readings)
        as double
    ) as mean_value,
    max(p95_value) as highest_p95,
    cast(sum(readings) as bigint) as readings,
    count(*) as windows,
    cast(count(*) / 12 as decimal(5, 4)) as completeness
from windows
where {{ is_touched('day') }}
group by sensor_id, hour, day
