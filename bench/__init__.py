"""Benchmarks of the course's engine against its peers, in one run and side by side. See README.md in this folder."""
