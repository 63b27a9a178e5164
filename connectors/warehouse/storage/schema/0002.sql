CREATE TABLE core.due_scans (  -- When the feeds of listed accounts are due, one row each, as of the last publication.
    account_id VARCHAR NOT NULL,  -- The account's id, a UUID in lower case.
    surface VARCHAR NOT NULL,  -- The feed, such as posts or stories.
    due_at TIMESTAMPTZ,  -- When `gramhouse sync --due` scans it again; NULL while the account's token is expired.
    due_reason VARCHAR NOT NULL  -- Why: first, rate, goal, quiet, retry or token_expired.
);
