-- Five minutes whose 95th percentile is far above what is usual for the sensor.
WITH usual AS (
    SELECT sensor_id, avg(p95_value) AS level, stddev_pop(p95_value) AS spread, count(*) AS steps
    FROM gold.sensor_5m
    GROUP BY sensor_id
)
SELECT s.sensor_id, s.window_start, s.p95_value, u.level
FROM gold.sensor_5m AS s
JOIN usual AS u ON u.sensor_id = s.sensor_id
WHERE u.steps > 2 AND s.p95_value > u.level + 1.2 * u.spread
ORDER BY s.sensor_id, s.window_start
