"""From YAML and config.json files to validated, composed parameters of a simulation."""
