"""How a table changes: plan, stage, compare, promote, roll back."""
