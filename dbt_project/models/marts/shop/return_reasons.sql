select
    reason,
    returns,
    quantity,
    refunded,
    median_quantity,
    cast(refunded / nullif(quantity, 0) as decimal(28, 2)) as refunded_per_pair,
    cast(returns / nullif(sum(returns) over (), 0) as decimal(9, 6)) as share
from {{ ref('stg_returns_by_reason') }}
