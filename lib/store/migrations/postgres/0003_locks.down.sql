DROP TABLE hapax_locks;
