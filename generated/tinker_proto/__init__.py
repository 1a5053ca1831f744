"""Messages of the binary bodies: `tinker_proto.tinker_pb2`.

Generated file: run `nox -s regenerate` instead of editing it.
"""
