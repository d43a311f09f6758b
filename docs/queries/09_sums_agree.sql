-- The inventory added up over sizes is the inventory by model: no row where both are right.
-- Both tables are exported at a version of their own, so one may be a few bookings ahead.
WITH summed AS (
    SELECT model, sum(stock) AS stock, sum(money) AS money FROM gold.inventory GROUP BY model
)
SELECT m.model, m.stock - s.stock AS pairs_off, m.money - s.money AS money_off
FROM gold.inventory_by_model AS m
JOIN summed AS s ON s.model = m.model
WHERE m.stock <> s.stock OR m.money <> s.money
ORDER BY m.model
