"""The one door to generated code: operations, both codecs, and what a server can do."""
