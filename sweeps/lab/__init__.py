"""The lab: ready experiments with the scheduler, one YAML file and one small module each."""
