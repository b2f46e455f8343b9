//! What every daemon shares: logs, metrics, health, shutdown and PKI; never anything of Kubernetes.
