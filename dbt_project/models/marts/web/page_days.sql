{{ config(
    materialized='incremental',
    incremental_strategy='merge',
    unique_key=['day', 'page'],
    meta={'follows': {'gold.clicks_enriched': 'cast(clicked_at as date)'}, 'scope': 'day'},
    pre_hook="{{ note_position() }}",
    post_hook="{{ end_note() }}",
) }}
with clicks as (
    select *, cast(clicked_at as date) as day
    from {{ ref('stg_clicks_enriched') }}
)

select
    day,
    page,
    count(*) as views,
    count(distinct user_id) as visitors,
    count_if(known) as known_views,
    count_if(tier = 'gold') as gold_views,
    min(clicked_at) as first_view,
    max(clicked_at) as last_view
from clicks
where {{ is_touched('day') }}
group by day, page
