"""Topics into bronze, whoever fills them: producers, change capture, another cluster."""
