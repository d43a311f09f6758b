with sizes as (
    select
        model,
        count(*) as sizes,
        count_if(status = 'oversold') as sizes_oversold,
        cast(sum(transactions) as bigint) as transactions
    from {{ ref('stock_levels') }}
    group by model
)

select
    m.model,
    m.stock,
    m.money,
    m.sizes_in_stock,
    coalesce(s.sizes, 0) as sizes,
    coalesce(s.sizes_oversold, 0) as sizes_oversold,
    coalesce(s.transactions, 0) as transactions,
    cast(rank() over (order by m.money desc) as bigint) as place
from {{ ref('stg_inventory_by_model') }} as m
left join sizes as s on m.model = s.model
