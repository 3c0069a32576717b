"""Length profiles: one YAML file each, read by `servecast.configs.length_profiles`."""
