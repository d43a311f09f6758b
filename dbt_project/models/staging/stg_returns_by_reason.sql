select reason, returns, quantity, refunded, median_quantity
from {{ source('gold', 'returns_by_reason') }}
