-- Steps in which a sensor that measured before and after said nothing: gaps, with their length.
WITH steps AS (
    SELECT
        sensor_id,
        window_end AS since,
        min(window_start) OVER (
            PARTITION BY sensor_id ORDER BY window_start
            ROWS BETWEEN 1 FOLLOWING AND 1 FOLLOWING
        ) AS until
    FROM gold.sensor_5m
)
SELECT sensor_id, since, until, date_diff('minute', since, until) AS minutes
FROM steps
WHERE until > since
ORDER BY sensor_id, since
