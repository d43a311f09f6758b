"""The embedded services: what runs, on which port, started and stopped without docker or root.

``infra/platform.toml`` says what there is (:mod:`~penstock.platform.spec`), one module per service
says how it is run, :mod:`~penstock.platform.stack` starts and stops all of it in order.
"""
