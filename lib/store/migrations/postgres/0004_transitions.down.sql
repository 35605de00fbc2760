DROP TABLE hapax_transitions;
