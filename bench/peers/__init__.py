"""The peers that are written in Python; those in JavaScript are in ../browser/."""
