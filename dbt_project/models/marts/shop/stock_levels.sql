select
    model,
    size,
    stock,
    money,
    transactions,
    cast(money / nullif(transactions, 0) as decimal(28, 2)) as money_per_transaction,
    case
        when stock < 0 then 'oversold'
        when stock = 0 then 'out of stock'
        when stock < 10 then 'low'
        else 'in stock'
    end as status
from {{ ref('stg_inventory') }}
