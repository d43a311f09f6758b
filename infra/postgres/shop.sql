-- The demo shop whose changes are captured. Run as its owner, once.
CREATE TABLE IF NOT EXISTS users (
    user_id    bigint PRIMARY KEY,
    name       text NOT NULL,
    email      text NOT NULL,
    country    text NOT NULL,
    tier       text NOT NULL DEFAULT 'basic' CHECK (tier IN ('basic', 'plus', 'gold')),
    updated_at timestamptz NOT NULL DEFAULT now(),
    zip_code   text
);
-- A shop that was made before users had one gets it too.
ALTER TABLE users ADD COLUMN IF NOT EXISTS zip_code text;
-- The old row is needed as it was, not only its key: history is built from it.
ALTER TABLE users REPLICA IDENTITY FULL;

INSERT INTO users (user_id, name, email, country, tier, zip_code) VALUES
    (1, 'Ada',    'ada@example.org',    'GB', 'gold',  'W1U 6TL'),
    (2, 'Blaise', 'blaise@example.org', 'FR', 'plus',  '63000'),
    (3, 'Carl',   'carl@example.org',   'DE', 'basic', '37073'),
    (4, 'Dorothy','dorothy@example.org','US', 'basic', '37073'),
    (5, 'Emmy',   'emmy@example.org',   'DE', 'plus',  '37073')
ON CONFLICT (user_id) DO UPDATE SET zip_code = excluded.zip_code WHERE users.zip_code IS NULL;

-- Named tables only: a table is captured because somebody said so.
DO $$
BEGIN
    IF NOT EXISTS (SELECT FROM pg_publication WHERE pubname = 'penstock') THEN
        CREATE PUBLICATION penstock FOR TABLE users;
    END IF;
END
$$;
