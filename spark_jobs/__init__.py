"""The jobs: our tables, one module each, and the demo traffic that feeds them."""
