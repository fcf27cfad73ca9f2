"""From a notebook: `from widgets import cot; cot.run(seed=7).plot()`."""

from widgets._runtime.notebook import door

run = door(__name__)
