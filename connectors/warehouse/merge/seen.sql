-- Remembers the items that unfinished scans have seen: at the end of a scan, when its pages are deleted, they are
-- needed to find the items that it missed. The id of a rejected record is empty. A row without an id and a surface says
-- that the account's token had expired when a page was received. Writes ops.seen.
INSERT INTO ops.seen
SELECT DISTINCT s.scan_id, s.account_id, s.surface, coalesce(s.media_id, '')
FROM sightings AS s JOIN last_checkpoints AS c USING (scan_id)
WHERE c.state = 'scanning'
UNION
SELECT p.scan_id, p.account_id, p.surface, ''
FROM pages AS p JOIN last_checkpoints AS c USING (scan_id)
WHERE c.state = 'scanning' AND p.is_unreadable AND p.resource = '{resource}'
UNION
SELECT p.scan_id, p.account_id, '', ''
FROM pages AS p JOIN last_checkpoints AS c USING (scan_id)
WHERE c.state = 'scanning' AND p.token_expired;
