"""Builds the site: content/, widgets/ and theme/ become plain files in dist/. The same as `raona build`."""

import sys

from widgets._runtime.command_line import main

if __name__ == "__main__":
    sys.exit(main(["build", *sys.argv[1:]]))
