-- What is on the road, by region: worth per truck, and how uneven the loads are.
SELECT
    region,
    merchandise,
    trucks,
    CAST(merchandise AS DOUBLE) / trucks AS per_truck,
    CAST(p95_load AS DOUBLE) / nullif(CAST(median_load AS DOUBLE), 0) AS unevenness
FROM gold.merchandise_by_region
WHERE trucks > 0
ORDER BY merchandise DESC, region
