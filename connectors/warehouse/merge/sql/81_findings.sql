-- Writes core.scan_findings.
INSERT INTO core.scan_findings BY NAME FROM findings
