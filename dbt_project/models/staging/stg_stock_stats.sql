select ticker, window_start, window_end, min_ask_price, trades, avg_price, is_final
from {{ source('gold', 'stock_stats') }}
