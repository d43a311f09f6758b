select sensor_id, window_start, window_end, min_value, max_value, mean_value, p95_value, readings
from {{ source('gold', 'sensor_5m') }}
