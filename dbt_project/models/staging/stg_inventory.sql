select model, size, stock, money, transactions
from {{ source('gold', 'inventory') }}
