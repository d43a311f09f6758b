"""Ways out of live tables: changelogs, events and notifications. docs/publishing.md tells all."""
