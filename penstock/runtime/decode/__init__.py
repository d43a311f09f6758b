"""From bytes to typed rows or a reason why not, by contract."""
