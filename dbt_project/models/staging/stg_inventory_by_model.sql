select model, sizes_in_stock, stock, money
from {{ source('gold', 'inventory_by_model') }}
