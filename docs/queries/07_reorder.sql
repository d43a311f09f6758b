-- Shoes to order again: models and sizes of which less than ten pairs are left, or none ever came.
SELECT model, size, stock, transactions
FROM gold.inventory
WHERE stock < 10
ORDER BY stock, model, size
