-- Records fields that the contract does not know. An earlier batch may have received a field later. Writes core.fields.
UPDATE core.fields SET first_seen_at = u.first_seen_at FROM unknown_fields AS u
WHERE fields.resource = u.resource AND fields.path = u.path AND u.first_seen_at < fields.first_seen_at;

INSERT INTO core.fields BY NAME FROM unknown_fields ANTI JOIN core.fields AS known USING (resource, path);
