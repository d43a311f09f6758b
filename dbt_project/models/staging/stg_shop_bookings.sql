-- Deliveries, sales and returns as one list: no gold table has them by day.
select 'shipment' as booking, shipped_at as booked_at, model, size, quantity, cost as amount
from {{ source('silver', 'shipments') }}
union all
select 'sale', sold_at, model, size, quantity, revenue
from {{ source('silver', 'sales') }}
union all
select 'return', returned_at, model, size, quantity, refunded
from {{ source('silver', 'returns') }}
