-- Writes core.media_versions.
INSERT INTO core.media_versions BY NAME FROM versions
