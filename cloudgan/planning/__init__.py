"""From what is wanted to a plan: pure, without network, login or clock."""
