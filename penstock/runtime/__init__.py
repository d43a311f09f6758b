"""How a table runs: read, compute, commit, as a stream and in batch.

The rooms, each knowing only those above it:

| room | what lives there |
|---|---|
| here | the registry in Postgres, signs of life, Kafka as a source, moments |
| `delta` | Delta logs with one writer each: files, commits, reading by version, swapping |
| `code` | a revision's code: bundles and fingerprints |
| `decode` | from bytes to typed rows, by contract |
| `fates` | what became of a row: counted, late, in quarantine |
| `ingest` | topics into bronze; change capture and mirrors of other clusters |
| `kinds` | one follower per kind of table, and its batch form |
| `declared` | what the tree declares becomes revisions |
| `mend` | rows tried again, records declared void, copies held against their source |
| `upkeep` | small files merged, logs cleaned up, bytes removed |
| `supervise` | the process that keeps all streams running, and what operators ask of it |
"""
