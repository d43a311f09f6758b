-- Shares of regions and of reasons add up to one, but for the sixth digit.
select 'region_loads' as mart, sum(share) as whole from {{ ref('region_loads') }}
having abs(sum(share) - 1) > 0.0001
union all
select 'return_reasons', sum(share) from {{ ref('return_reasons') }}
having abs(sum(share) - 1) > 0.0001
