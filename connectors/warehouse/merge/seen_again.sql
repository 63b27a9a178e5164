-- A missing item that any scan has seen again, complete or not, is not missing any more. Writes ops.missing.
DELETE FROM ops.missing AS m USING sightings AS s
WHERE m.account_id = s.account_id AND m.surface = s.surface AND m.media_id = s.media_id;
