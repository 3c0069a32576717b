"""Tables and figures from stored results."""
