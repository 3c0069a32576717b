"""The pages of the lab: what belongs to each YAML file in code. Adding one = the YAML, a module, a line here, a test."""
from servecast.sweeps.lab.rows import Page
PAGES={}
