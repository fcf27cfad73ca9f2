"""Reinforcement learning on the mini-GPT. Each module adds one idea to those before it."""
