-- The scope by which stock_minutes is kept must be that of its rows.
select ticker, minute, hour
from {{ ref('stock_minutes') }}
where hour <> date_trunc('hour', minute)
