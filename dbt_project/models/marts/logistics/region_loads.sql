select
    region,
    merchandise,
    pairs,
    trucks,
    median_load,
    p95_load,
    cast(merchandise / nullif(trucks, 0) as decimal(28, 2)) as merchandise_per_truck,
    cast(merchandise / nullif(sum(merchandise) over (), 0) as decimal(9, 6)) as share,
    cast(rank() over (order by merchandise desc) as bigint) as place
from {{ ref('stg_merchandise_by_region') }}
