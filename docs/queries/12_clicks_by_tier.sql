-- Page views by tier and country, with the pages seen; unknown visitors are a group of their own.
SELECT
    coalesce(tier, 'unknown') AS level,
    coalesce(country, 'unknown') AS land,
    count(*) AS clicks,
    count(DISTINCT user_id) AS visitors,
    count(DISTINCT page) AS pages
FROM gold.clicks_enriched
GROUP BY coalesce(tier, 'unknown'), coalesce(country, 'unknown')
ORDER BY clicks DESC, level, land
