-- For each ticker, the window in which it was to be had cheapest, of those that stand.
WITH ranked AS (
    SELECT
        ticker,
        window_start,
        min_ask_price,
        row_number() OVER (PARTITION BY ticker ORDER BY min_ask_price, window_start) AS place
    FROM gold.stock_stats
    WHERE is_final AND min_ask_price IS NOT NULL
)
SELECT ticker, window_start, min_ask_price
FROM ranked
WHERE place = 1
ORDER BY ticker
