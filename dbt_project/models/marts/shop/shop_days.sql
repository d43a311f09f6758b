select
    cast(booked_at as date) as day,
    cast(coalesce(sum(quantity) filter (where booking = 'sale'), 0) as bigint) as pairs_sold,
    cast(coalesce(sum(quantity) filter (where booking = 'return'), 0) as bigint) as pairs_returned,
    cast(coalesce(sum(quantity) filter (where booking = 'shipment'), 0) as bigint) as pairs_received,
    cast(coalesce(sum(amount) filter (where booking = 'sale'), 0) as decimal(28, 2)) as revenue,
    cast(coalesce(sum(amount) filter (where booking = 'return'), 0) as decimal(28, 2)) as refunded,
    cast(coalesce(sum(amount) filter (where booking = 'shipment'), 0) as decimal(28, 2)) as cost,
    cast(
        coalesce(sum(amount) filter (where booking = 'sale'), 0)
        - coalesce(sum(amount) filter (where booking = 'return'), 0) as decimal(28, 2)
    ) as net_revenue,
    count(*) as bookings
from {{ ref('stg_shop_bookings') }}
group by cast(booked_at as date)
