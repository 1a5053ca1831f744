"""Who looks on: telemetry to the server, callbacks, the run log and its ledger, OpenTelemetry."""
