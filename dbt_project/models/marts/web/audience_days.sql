select
    cast(clicked_at as date) as day,
    coalesce(country, 'unknown') as country,
    coalesce(tier, 'unknown') as tier,
    count(*) as clicks,
    count(distinct user_id) as users,
    count(distinct page) as pages
from {{ ref('stg_clicks_enriched') }}
group by cast(clicked_at as date), coalesce(country, 'unknown'), coalesce(tier, 'unknown')
