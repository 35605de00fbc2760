DROP TABLE hapax_journal;
DROP TABLE hapax_records;
DROP VIEW hapax_now;
