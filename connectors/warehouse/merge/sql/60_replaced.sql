-- Deletes the rows of items that changed: an UPDATE would rewrite all texts of the rows near them.
DELETE FROM core.media WHERE rowid IN (SELECT row FROM listed WHERE is_changed)
