"""The process that keeps all streams running, and what operators ask of it."""
