"""Execution of compiled layers: dense and sparse."""
