"""Language models of the catalogue, one YAML file each; the file name is the key."""
