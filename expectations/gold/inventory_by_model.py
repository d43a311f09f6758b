"""gold.inventory_by_model: what must hold of all models together."""

import great_expectations.expectations as gxe

from penstock.quality import blocking, suite

SUITE = suite(
    "gold.inventory_by_model",
    blocking(gxe.ExpectColumnValuesToBeUnique(column="model"), "one row per model"),
    blocking(gxe.ExpectColumnValuesToNotBeNull(column="model")),
    blocking(gxe.ExpectColumnValuesToBeBetween(column="sizes_in_stock", min_value=0)),
    blocking(
        gxe.ExpectColumnValuesToBeBetween(column="sizes_in_stock", min_value=1),
        "pairs that are in stock are so in some size",
        where="stock > 0",
    ),
)
