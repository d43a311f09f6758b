-- Each sensor's day: how much it measured, its extremes, and its mean weighted by readings.
SELECT
    sensor_id,
    CAST(window_start AS DATE) AS day,
    sum(readings) AS measured,
    min(min_value) AS lowest,
    max(max_value) AS highest,
    sum(mean_value * readings) / sum(readings) AS mean
FROM gold.sensor_5m
GROUP BY sensor_id, CAST(window_start AS DATE)
ORDER BY day, sensor_id
