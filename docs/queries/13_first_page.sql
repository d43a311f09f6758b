-- The page on which known visitors begin their day.
WITH firsts AS (
    SELECT
        user_id,
        page,
        row_number() OVER (
            PARTITION BY user_id, CAST(clicked_at AS DATE) ORDER BY clicked_at, click_id
        ) AS place
    FROM gold.clicks_enriched
    WHERE known
)
SELECT page, count(*) AS visits
FROM firsts
WHERE place = 1
GROUP BY page
ORDER BY visits DESC, page
