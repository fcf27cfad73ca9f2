"""The tiny GPT of the course and everything that is trained on it.

Reading order: `task` (what is learned), `model` (where the numbers live), `reference` (every operation, forward and
backward, in NumPy), `supervised` (one training step), `recipes` (how the course's models are made).
"""
