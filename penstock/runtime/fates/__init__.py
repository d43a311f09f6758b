"""What became of a row: counted, late, set apart; and whether the numbers add up."""
