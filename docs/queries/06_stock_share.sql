-- Which share of all windows' trades falls to each ticker.
WITH per_ticker AS (SELECT ticker, sum(trades) AS trades FROM gold.stock_stats GROUP BY ticker)
SELECT ticker, trades, trades * 1.0 / (SELECT sum(trades) FROM per_ticker) AS share
FROM per_ticker
ORDER BY trades DESC, ticker
