-- Name, country and tier as of the last click: where two came at once, the greater id settles it.
select
    user_id,
    max_by(user_name, struct(clicked_at, click_id)) as user_name,
    max_by(country, struct(clicked_at, click_id)) as country,
    max_by(tier, struct(clicked_at, click_id)) as tier,
    count(*) as clicks,
    count(distinct page) as pages,
    count(distinct cast(clicked_at as date)) as days_active,
    min(clicked_at) as first_click,
    max(clicked_at) as last_click
from {{ ref('stg_clicks_enriched') }}
where user_id is not null
group by user_id
