"""The loop thread, the one future, how replies are read and how results are waited for."""
