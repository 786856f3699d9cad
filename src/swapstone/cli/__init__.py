"""The command line: parses, prints, exits. Nothing imports it."""
