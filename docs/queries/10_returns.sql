-- Why shoes come back: each reason's share of the returns and of the money paid back.
SELECT
    reason,
    returns,
    quantity,
    refunded,
    returns * 1.0 / sum(returns) OVER () AS share_of_returns,
    CAST(refunded AS DOUBLE) / sum(CAST(refunded AS DOUBLE)) OVER () AS share_of_money
FROM gold.returns_by_reason
ORDER BY returns DESC, reason
