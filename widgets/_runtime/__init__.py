"""The doors by which an experiment is entered: browser worker, command line, notebook, tests and the build."""
