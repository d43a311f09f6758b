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

-- Regions that trucks are seen in; what is known of them is joined as it was then.
CREATE TABLE IF NOT EXISTS regions (
    region     text PRIMARY KEY,
    title      text NOT NULL,
    manager    text NOT NULL,
    updated_at timestamptz NOT NULL DEFAULT now()
);
ALTER TABLE regions REPLICA IDENTITY FULL;

INSERT INTO regions (region, title, manager) VALUES
    ('north', 'The North', 'Ines'), ('south', 'The South', 'Jonas'), ('east', 'The East', 'Karla'),
    ('west', 'The West', 'Lars'), ('centre', 'The Centre', 'Ines')
ON CONFLICT DO NOTHING;

-- What a card may do: payments in a minute, kilometres an hour between two of them, and how much.
CREATE TABLE IF NOT EXISTS fraud_rules (
    card_kind    text PRIMARY KEY CHECK (card_kind IN ('debit', 'credit', 'prepaid')),
    max_payments integer NOT NULL,
    max_kmh      integer NOT NULL,
    max_amount   integer NOT NULL,
    updated_at   timestamptz NOT NULL DEFAULT now()
);
ALTER TABLE fraud_rules REPLICA IDENTITY FULL;

INSERT INTO fraud_rules (card_kind, max_payments, max_kmh, max_amount) VALUES
    ('debit', 4, 900, 2000), ('credit', 5, 900, 5000), ('prepaid', 3, 900, 300)
ON CONFLICT DO NOTHING;

-- Guests of the hotel who come often.
CREATE TABLE IF NOT EXISTS loyalty (
    guest_id   bigint PRIMARY KEY,
    name       text NOT NULL,
    level      text NOT NULL CHECK (level IN ('bronze', 'silver', 'gold')),
    points     bigint NOT NULL DEFAULT 0,
    updated_at timestamptz NOT NULL DEFAULT now()
);
ALTER TABLE loyalty REPLICA IDENTITY FULL;

INSERT INTO loyalty (guest_id, name, level, points) VALUES
    (1, 'Niels', 'gold', 1900), (2, 'Olga', 'gold', 1500), (3, 'Pavel', 'silver', 900),
    (4, 'Rosa', 'silver', 700), (5, 'Sven', 'silver', 650), (6, 'Tove', 'bronze', 300),
    (7, 'Uma', 'bronze', 250), (8, 'Viktor', 'bronze', 100), (9, 'Wanda', 'bronze', 50),
    (10, 'Yusuf', 'bronze', 0)
ON CONFLICT DO NOTHING;

-- Named tables only: a table is captured because somebody said so. A shop that was made with fewer
-- of them captures the others too, from then on.
DO $$
DECLARE
    wanted text;
BEGIN
    IF NOT EXISTS (SELECT FROM pg_publication WHERE pubname = 'penstock') THEN
        CREATE PUBLICATION penstock;
    END IF;
    FOREACH wanted IN ARRAY ARRAY['users', 'regions', 'fraud_rules', 'loyalty'] LOOP
        IF NOT EXISTS (
            SELECT FROM pg_publication_tables
            WHERE pubname = 'penstock' AND schemaname = 'public' AND tablename = wanted
        ) THEN
            EXECUTE format('ALTER PUBLICATION penstock ADD TABLE %I', wanted);
        END IF;
    END LOOP;
END
$$;
