DROP TABLE IF EXISTS hapax_journal;
DROP TABLE IF EXISTS hapax_records;
DROP VIEW IF EXISTS hapax_now;
