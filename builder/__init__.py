"""Turns content/, widgets/ and theme/ into the static site: see site.build, and build_site.py for the command."""
