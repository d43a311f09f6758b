-- What this export is: which version of each table, of which revision, and when it was made.
SELECT table_name, delta_version, revision, rows, checksum
FROM penstock.exports
ORDER BY table_name
