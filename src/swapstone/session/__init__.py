"""Sessions: starting and resuming experiments and studies, and analysing their records. Nothing here prints or exits."""
