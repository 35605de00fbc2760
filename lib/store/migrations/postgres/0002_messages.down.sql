DROP TABLE hapax_inbox;
DROP TABLE hapax_outbox_journal;
DROP TABLE hapax_outbox;
