"""The live page of training runs: `tinker-ext ui` shows the run logs of a folder in a browser."""
