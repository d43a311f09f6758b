-- Models by the money they made, with how much of their stock lies in one size.
WITH biggest AS (SELECT model, max(stock) AS most FROM gold.inventory GROUP BY model)
SELECT
    m.model,
    m.money,
    m.stock,
    m.sizes_in_stock,
    CASE WHEN m.stock > 0 THEN b.most * 1.0 / m.stock END AS in_one_size
FROM gold.inventory_by_model AS m
JOIN biggest AS b ON b.model = m.model
ORDER BY m.money DESC, m.model
