-- Scans of media that ended early: they reached neither the last page nor items that a closed scan has seen. Items
-- published between known_from and read_down_to may be missing. The next scan reads them.
-- key: account_id, surface
-- join: accounts by account_id
SELECT
    account_id,  -- The account's id, a UUID in lower case.
    surface,  -- The feed, such as posts or stories.
    started_at AS since,  -- When the scan began that left the gap.
    cursor,  -- Cursor of the page that it would request next; NULL if the API refused it.
    pages,  -- Pages it landed.
    read_to AS read_down_to,  -- Publication time of the last post that it received: newer ones were read; NULL for stories.
    known_from,  -- Publication time of the newest item that a closed scan has seen: older ones are known; NULL if there is
                 -- none.
    reason  -- Why it ended: an error code, or interrupted.
FROM core.open_checkpoints
