"""Any cluster that a kubeconfig reaches."""
