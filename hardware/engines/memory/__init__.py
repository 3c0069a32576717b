"""Memory rules, one YAML file for the engine versions that share them. The forms are those of docs/memory.md."""
