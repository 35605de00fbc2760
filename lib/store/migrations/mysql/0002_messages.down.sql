DROP TABLE IF EXISTS hapax_inbox;
DROP TABLE IF EXISTS hapax_outbox_journal;
DROP TABLE IF EXISTS hapax_outbox;
