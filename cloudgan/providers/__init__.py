"""Where a run can be sent: one package each, and none knows another."""
