DROP TABLE IF EXISTS hapax_locks;
