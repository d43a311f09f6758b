-- Minute by minute: the mean price of each ticker over the windows that do not overlap.
SELECT
    ticker,
    date_trunc('minute', window_start) AS minute,
    count(*) AS windows,
    avg(avg_price) AS mean_price,
    sum(trades) AS trades
FROM gold.stock_stats
WHERE is_final AND extract(second FROM window_start) % 5 = 0
GROUP BY ticker, date_trunc('minute', window_start)
ORDER BY ticker, minute
