-- "Now" is the newest hour any sensor has: a mart built again from the same rows is the same.
with newest as (
    select max(hour) as hour from {{ ref('sensor_hours') }}
),

seen as (
    select
        h.sensor_id,
        max(h.hour) as last_hour,
        min(h.min_value) as min_value,
        max(h.max_value) as max_value,
        cast(sum(h.readings) as bigint) as readings,
        cast(sum(h.windows) / (12 * count(*)) as decimal(5, 4)) as completeness,
        any_value(n.hour) as newest_hour
    from {{ ref('sensor_hours') }} as h
    cross join newest as n
    where h.hour > n.hour - interval 24 hours
    group by h.sensor_id
)

select
    sensor_id,
    last_hour,
    min_value,
    max_value,
    readings,
    completeness,
    case
        when last_hour < newest_hour - interval 1 hour then 'silent'
        when completeness < 0.5 then 'gaps'
        else 'ok'
    end as status
from seen
