"""The highest load that meets an SLO."""
