"""Results of experiments: their JSON files, tables, figures and verdicts."""
