-- Writes core.account_periods.
INSERT INTO core.account_periods BY NAME FROM periods
