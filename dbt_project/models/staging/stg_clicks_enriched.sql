select click_id, user_id, page, clicked_at, known, user_name, country, tier
from {{ source('gold', 'clicks_enriched') }}
