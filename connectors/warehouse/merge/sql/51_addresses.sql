-- Updates the items that did not change where they are, so that the rows of an account stay together.
UPDATE core.media SET {assignments} payload_hash = a.payload_hash
FROM unchanged AS u JOIN batch AS b ON b.n = u.n JOIN arrived AS a ON a.n = u.n
WHERE media.rowid = u.row
