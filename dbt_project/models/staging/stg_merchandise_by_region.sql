select region, merchandise, pairs, trucks, median_load, p95_load
from {{ source('gold', 'merchandise_by_region') }}
