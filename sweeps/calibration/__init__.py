"""Fits that simulate whole runs."""
