-- The outbox of notifications (docs/publishing.md). Its only writer is the publisher; people's
-- preferences are set with `penstock notify`.
CREATE TABLE IF NOT EXISTS feed (
    notification text PRIMARY KEY,
    position     jsonb NOT NULL,
    at           timestamptz NOT NULL DEFAULT now()
);

-- What there is to say of one row to one person, and what was said. `now` and `said` are digests of
-- the text; they differ where something is still to be said.
CREATE TABLE IF NOT EXISTS notice (
    notice_id    text PRIMARY KEY,   -- of notification, table, key and recipient
    notification text NOT NULL,
    table_name   text NOT NULL,
    key          jsonb NOT NULL,
    recipient    text NOT NULL,      -- '' and never due: the row names nobody yet
    every        text NOT NULL,
    subject      text,
    body         text,
    now          text NOT NULL,      -- 'gone': the row is no more
    said         text,               -- null: nothing was
    times        integer NOT NULL DEFAULT 0,
    silent       boolean NOT NULL DEFAULT false,  -- older than the notification: never told of
    since        timestamptz NOT NULL DEFAULT now()
);
-- Of a digest: a recipient is a value of a row, and an index takes none over 2.7 kB.
CREATE INDEX IF NOT EXISTS notice_due_by ON notice (md5(recipient)) WHERE NOT silent AND now IS DISTINCT FROM said;
DROP INDEX IF EXISTS notice_due;     -- of before: over the recipient itself

-- One message as it is sent: decided once, sent until it is taken.
CREATE TABLE IF NOT EXISTS letter (
    letter_id text PRIMARY KEY,      -- of what it says: the Message-ID, the Idempotency-Key, the file
    recipient text NOT NULL,
    address   text NOT NULL,
    subject   text NOT NULL,
    body      text NOT NULL,
    notices   jsonb NOT NULL,
    made_at   timestamptz NOT NULL DEFAULT now(),
    sent_at   timestamptz,
    attempts  integer NOT NULL DEFAULT 0,
    next_try  timestamptz NOT NULL DEFAULT now(),
    error     text NOT NULL DEFAULT ''
);
CREATE INDEX IF NOT EXISTS letter_due ON letter (next_try) WHERE sent_at IS NULL;

CREATE TABLE IF NOT EXISTS recipient (
    name    text PRIMARY KEY,
    address text,                    -- null: the default, whatever that is then
    every   text                     -- null: what the notification says
);
-- A database of before has them NOT NULL; where they are not, this does nothing.
ALTER TABLE recipient ALTER COLUMN address DROP NOT NULL;
ALTER TABLE recipient ALTER COLUMN every DROP NOT NULL;
