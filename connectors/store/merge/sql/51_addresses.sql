-- Updates the items that did not change where they are, so that the rows of an account stay together.
UPDATE core.media SET {assignments} payload_hash = l.payload_hash
FROM unchanged AS u JOIN listed AS l ON l.n = u.n
WHERE media.rowid = u.row
