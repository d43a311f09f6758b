-- Of a model at most one version is valid now.
select model, count(*) as versions
from {{ ref('model_stock_history') }}
where dbt_valid_to is null
group by model
having count(*) > 1
