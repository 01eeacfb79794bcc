"""What the conformance suite needs besides its checks: the server under test, and programs for other interpreters."""
