DROP TABLE IF EXISTS hapax_transitions;
